"""Models as the importer takes them."""

import onnx


def plain(proto: bytes) -> onnx.ModelProto:
    """The model without attributes that say where nodes run."""

    def strip(graph: onnx.GraphProto) -> None:
        for node in graph.node:
            kept = [attribute for attribute in node.attribute if not attribute.name.startswith("__")]
            del node.attribute[:]
            node.attribute.extend(kept)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    strip(attribute.g)

    model = onnx.load_from_string(proto)
    strip(model.graph)
    return model
