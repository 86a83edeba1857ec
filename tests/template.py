"""The process that tests/forked.py starts with this text behind `-c`: it imports modules, and each of its forks becomes a program."""


def serve() -> None:
    """Forks for each request of a socket until nobody holds its other end. A fork runs the program; then Python ends as it always does.

    Arguments of the process: the socket's number, then modules to import. A request is its length, with stdin, stdout and stderr, and JSON:
    the command line behind `python`, the environment, the folder, whether warnings are errors. Answers are two numbers of eight bytes: the
    fork's, and its exit status.
    """
    import gc
    import importlib
    import json
    import os
    import socket
    import sys
    import threading
    import warnings

    connection = socket.socket(fileno=int(sys.argv[1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in sys.argv[2:]:
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # forks share these objects, and need not look for garbage among them when they end
    while True:
        head, streams, _, _ = socket.recv_fds(connection, 8, 3)
        if not head:
            return
        request = json.loads(connection.recv(int.from_bytes(head, "little"), socket.MSG_WAITALL))
        child = os.fork()
        if child == 0:
            break
        for stream in streams:
            os.close(stream)
        connection.sendall(child.to_bytes(8, "little"))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.sendall(status.to_bytes(8, "little", signed=True))
    connection.close()
    threading.main_thread()._set_native_id()  # type: ignore[attr-defined]  # Python leaves the parent's
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environ"])
    if platforms := os.environ.get("JAX_PLATFORMS"):
        import jax

        jax.config.update("jax_platforms", platforms)  # JAX has read its variables already
    if request["strict"]:
        sys.warnoptions.append("error")
        warnings.simplefilter("error")
    words = request["words"]
    sys.orig_argv[:] = [sys.executable, *words]
    main = sys.modules["__main__"].__dict__
    del main["serve"]
    main["__doc__"] = None
    if words[0] == "-m":
        import runpy

        sys.argv[:], sys.path[0] = ["-m", *words[2:]], os.getcwd()
        runpy._run_module_as_main(words[1])  # type: ignore[attr-defined]  # as `python -m` does
        return
    if words[0] == "-c":
        name, (text, *others) = "<string>", words[1:]
        sys.argv[:] = ["-c", *others]
    else:
        name = main["__file__"] = words[0]
        with open(name, encoding="utf-8") as script:
            text = script.read()
        sys.argv[:], sys.path[0] = words, os.path.dirname(os.path.abspath(name))
    try:
        exec(compile(text, name, "exec"), main)
    except Exception as error:  # what Python does, but without the lines of this file
        trace = error.__traceback__ and error.__traceback__.tb_next
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error.with_traceback(trace), trace
        sys.excepthook(type(error), error, trace)
        sys.exit(1)


serve()
