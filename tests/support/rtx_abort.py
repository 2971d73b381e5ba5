"""A child process in which TensorRT-RTX ends by itself: it cannot parse an operator with a plugin's name."""

from __future__ import annotations

from typing import Any

from aotc.backends.tensorrt_rtx.compile import compile_in_child
from aotc.child import Progress


def compile_with_plugin(payload: dict[str, Any], progress: Progress) -> Any:
    """Do what the compiler's child does, after a plugin called ``Foo`` was registered."""
    import tensorrt_rtx as trt

    class Plugin(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild):
        def __init__(self) -> None:
            trt.IPluginV3.__init__(self)
            trt.IPluginV3OneCore.__init__(self)
            trt.IPluginV3OneBuild.__init__(self)
            self.plugin_name, self.plugin_version, self.plugin_namespace, self.num_outputs = "Foo", "1", "", 1

    class Creator(trt.IPluginCreatorV3One):
        def __init__(self) -> None:
            trt.IPluginCreatorV3One.__init__(self)
            self.name, self.plugin_version, self.plugin_namespace = "Foo", "1", ""
            self.field_names = trt.PluginFieldCollection([])

        def create_plugin(self, name: str, fields: Any, phase: Any) -> Plugin:
            return Plugin()

    assert trt.get_plugin_registry().register_creator(Creator(), "")
    return compile_in_child(payload, progress)
