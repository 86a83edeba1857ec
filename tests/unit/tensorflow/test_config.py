"""`IPUConfig`: its tree, its errors, and what it chooses."""

from typing import Any

import jax
import pytest

from tilestep.errors import UnsupportedError
from tilestep.tensorflow.ipu import config as ipu_config
from tilestep.tensorflow.ipu.config import IPUConfig, system


def test_an_unknown_option_names_the_nearest() -> None:
    config: Any = IPUConfig()
    with pytest.raises(AttributeError, match=r"no option auto_select_ipu: did you mean auto_select_ipus\?"):
        config.auto_select_ipu = 1
    with pytest.raises(AttributeError, match=r"no option floating_point_behaviour\.ofl: did you mean floating_point_behaviour\.oflo\?"):
        config.floating_point_behaviour.ofl = True


@pytest.mark.parametrize(("name", "value", "kinds"), [("auto_select_ipus", True, "int or list or tuple"), ("allow_recompute", 1, "bool")])
def test_a_value_of_another_type_is_refused(name: str, value: Any, kinds: str) -> None:
    with pytest.raises(TypeError, match=rf"IPUConfig\.{name} is {value}: it must be {kinds}"):
        setattr(IPUConfig(), name, value)


def test_devices_and_plan_options_are_chosen(tf: Any) -> None:
    config = IPUConfig()
    config.select_ipus = [2, 1]
    config.matmuls.poplar_options = {"availableMemoryProportion": "0.2", "partialsType": "half"}
    with pytest.raises(UnsupportedError, match="several devices"):
        config.configure_ipu_system()
    config.select_ipus = 2
    config.allow_recompute = True
    config.configure_ipu_system()
    assert system().recompute
    assert [device.id for device in system().devices] == [2]
    assert system().plan_options == {"available_memory_proportion": 0.2, "partials_type": "half"}
    ipu_config.reset_ipu_configuration()
    assert system().devices == (jax.devices()[0],)


def test_more_ipus_than_there_are_names_the_way_out() -> None:
    config = IPUConfig()
    config.auto_select_ipus = 99
    with pytest.raises(UnsupportedError, match=r"99 devices were asked for, but there are \d+ .*`tilestep run --ipus N`"):
        config.configure_ipu_system()


def test_options_without_an_equal_are_named(tf: Any) -> None:
    config = IPUConfig()
    config.optimizations.math.fast = True
    config.device_connection.enable_remote_buffers = True
    with pytest.warns(UserWarning, match=r"no effect here: optimizations\.math\.fast$"):
        config.configure_ipu_system()


def test_a_seed_has_no_effect_and_says_so() -> None:
    with pytest.warns(UserWarning, match=r"reset_ipu_seed has no effect.*stateless"):
        ipu_config.reset_ipu_seed(3)


def test_a_key_that_a_program_sets_in_an_option_is_that_configuration_s_alone() -> None:
    one = IPUConfig()
    one.matmuls.poplar_options["availableMemoryProportion"] = "0.2"
    one.configure_ipu_system()
    assert system().plan_options == {"available_memory_proportion": 0.2}
    assert IPUConfig().matmuls.poplar_options == {}
    assert IPUConfig().convolutions.poplar_options == {}
