"""Source files, options and command lines that are not usable as given."""

from __future__ import annotations

from pathlib import Path

import torch

from error_cases.registry import build, case, command, net


@case("UsageError", "usage")
def an_option_that_is_missing() -> None:
    command("build", "model.py")


@case("UsageError", "usage")
def a_command_that_does_not_exist() -> None:
    command("biuld")


@case("UsageError", "config")
def an_option_in_the_file_that_does_not_exist() -> None:
    Path("aotc.toml").write_text('tragets = "ort-cpu"\n')
    build("model.py")


@case("UsageError", "source")
def a_source_without_a_model() -> None:
    Path("net.py").write_text("def inputs():\n    return ()\n")
    build()


@case("UsageError", "source")
def a_source_that_raises() -> None:
    net("return x", made="torch.load('weights.pt')")
    build()


@case("UsageError", "eager-refuses")
def inputs_that_eager_refuses() -> None:
    net("return self.layer(x)", init="self.layer = nn.Linear(4, 4)")
    build()


@case("UsageError", "dynamic-shapes")
def dynamic_shapes_of_another_form() -> None:
    net("return x + 1", end='dynamic_shapes = ({0: "batch"}, {0: "batch"})')
    build()


@case("UsageError", "profile")
def a_profile_of_a_dim_that_does_not_exist() -> None:
    net("return x + 1", end='dynamic_shapes = ({0: "batch"},)\nprofiles = [{"bacth": (1, 2, 8)}]')
    build()


@case("UsageError", "state")
def a_state_that_is_no_input() -> None:
    net("return x + 1", end='state = {"h": "output"}')
    build()


@case("UsageError", "dim")
def sizes_for_a_source_with_profiles() -> None:
    build("model.py", "--dim", "batch=1:2:3")


@case("UsageError", "parts")
def a_part_that_does_not_exist() -> None:
    build("model.py:encoder")


@case("UsageError", "untrusted-source")
def a_program_that_nobody_vouches_for() -> None:
    torch.export.save(torch.export.export(torch.nn.ReLU().eval(), (torch.ones(2),)), "net.pt2")
    build("net.pt2")


@case("UsageError", "destination")
def a_folder_that_is_no_bundle_in_the_way() -> None:
    Path("out").mkdir()
    Path("out/notes.txt").write_text("mine")
    build("model.py")


@case("StorageError", "storage")
def a_file_in_the_place_of_a_folder() -> None:
    command("build", "model.py", "-o", "model.py/out")


@case("MissingError", "environment")
def a_package_that_is_not_installed() -> None:
    from unittest import mock

    with mock.patch.dict("sys.modules", {"onnxscript": None}):
        build("model.py")
