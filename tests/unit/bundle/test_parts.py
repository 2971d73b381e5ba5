"""A bundle in parts: what was published together is loaded together, or refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from aotc.bundle import (
    Contents,
    PartEntry,
    PartsContents,
    PartsDescription,
    Staging,
    checked_path,
    leftovers,
    open_any,
    open_bundle,
    verify_bundle,
)
from aotc.bundle.parts import seal_parts
from aotc.bundle.schema import SCHEMA_FILE
from aotc.errors import CompatibilityError, IntegrityError, UsageError

DIGEST = PartEntry(digest="0" * 64)


@pytest.fixture
def publish_parts(publish: Callable[..., Any]) -> Callable[..., PartsDescription]:
    def make(folder: Path, name: str = "whole") -> PartsDescription:
        with Staging(folder) as staging:
            made = {}
            for part in ("encoder", "decoder"):
                made[part] = publish(folder.parent / "made" / part, name=f"{name}/{part}").digest
                (folder.parent / "made" / part).rename(staging.path / part)
            (staging.path / "accuracy.json").write_text("{}")
            return staging.publish_parts(
                PartsContents(
                    name=name,
                    parts={part: PartEntry(digest=made[part]) for part in sorted(made)},
                    beside=staging.entries("accuracy.json"),
                )
            )

    return make


@pytest.fixture
def whole(tmp_path: Path, publish_parts: Callable[..., PartsDescription]) -> Path:
    publish_parts(tmp_path / "model")
    return tmp_path / "model"


def test_every_part_is_open(whole: Path) -> None:
    with open_any(whole) as opened:
        assert list(opened.parts) == ["decoder", "encoder"]
        for name, part in opened.parts.items():
            assert bytes(part.buffer("weights")) == bytes(range(64))
            assert part.path == whole / name
    with pytest.raises(UsageError, match="the bundle is closed"):
        part.buffer("weights")


def test_a_part_alone_is_a_bundle(whole: Path) -> None:
    with open_bundle(whole / "encoder") as opened:
        assert opened.description.name == "whole/encoder"


def test_the_whole_is_not_one_graph(whole: Path) -> None:
    with pytest.raises(UsageError, match="has the parts decoder, encoder") as caught:
        open_bundle(whole)
    assert caught.value.hint == f"name a part: {whole}/decoder or {whole}/encoder"


def test_it_replaces_an_older_one_and_another_kind(
    tmp_path: Path, whole: Path, publish: Callable[..., Any], publish_parts: Any, way: str
) -> None:
    publish_parts(whole, "newer")
    assert verify_bundle(whole).name == "newer"
    publish(whole)
    assert verify_bundle(whole).name == "tiny"
    publish_parts(whole, "again")
    assert verify_bundle(whole).name == "again"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "model"]


def test_it_does_not_replace_what_is_not_its_own(whole: Path, publish_parts: Any) -> None:
    (whole / "encoder/notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"holds 'encoder/notes\.txt', which is not part of the bundle"):
        publish_parts(whole)
    assert (whole / "encoder/notes.txt").exists()


@pytest.mark.usefixtures("whole")
def test_a_killed_build_leaves_nothing_for_long(tmp_path: Path, publish_parts: Any) -> None:
    dead = leftovers.hidden_name(tmp_path / "model", "staging")
    shutil.copytree(tmp_path / "model", dead / "scratch")
    publish_parts(tmp_path / "model")
    assert not dead.exists()


def swap(whole: Path) -> None:
    (whole / "encoder").rename(whole / "third")
    (whole / "decoder").rename(whole / "encoder")
    (whole / "third").rename(whole / "decoder")


def replace_part(whole: Path) -> None:
    shutil.rmtree(whole / "encoder")
    shutil.copytree(whole / "decoder", whole / "encoder")


def remove(name: str) -> Callable[[Path], None]:
    return lambda whole: shutil.rmtree(whole / name) if (whole / name).is_dir() else (whole / name).unlink()


def rewrite(name: str, content: str) -> Callable[[Path], None]:
    def change(whole: Path) -> None:
        (whole / name).write_text(content)

    return change


def edit(**changes: Any) -> Callable[[Path], None]:
    def change(whole: Path) -> None:
        path = whole / "bundle.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}, indent=2) + "\n")

    return change


def link_part(whole: Path) -> None:
    (whole / "encoder").rename(whole.parent / "elsewhere")
    (whole / "encoder").symlink_to(whole.parent / "elsewhere")


def link_file(whole: Path) -> None:
    (whole / "encoder/weights").rename(whole.parent / "weights")
    (whole / "encoder/weights").symlink_to(whole.parent / "weights")


def nest(whole: Path) -> None:
    """Put a whole bundle in parts where a part belongs."""
    copy = whole.parent / "copy"
    shutil.copytree(whole, copy)
    shutil.rmtree(whole / "encoder")
    copy.rename(whole / "encoder")


def reseal(whole: Path) -> None:
    """Drop a part from the list, with a digest that is right."""
    before = verify_bundle(whole)
    fewer = {"decoder": before.parts["decoder"]}
    text = seal_parts(PartsContents(name=before.name, parts=fewer, beside=before.beside)).to_json()
    (whole / "bundle.json").write_bytes(text)


@pytest.mark.parametrize(
    ("tamper", "text", "where"),
    [
        (swap, "the part 'decoder' is another bundle: its digest is", "decoder"),
        (replace_part, "the part 'encoder' is another bundle: its digest is", "encoder"),
        (nest, "the part 'encoder' is another bundle: its digest is", "encoder"),
        (remove("encoder"), "the part 'encoder' is missing", ""),
        (remove("encoder/weights"), "the file 'weights' is missing", "encoder"),
        (remove("encoder/bundle.json"), "the file 'bundle.json' is missing", "encoder"),
        (remove("accuracy.json"), r"the file 'accuracy\.json' is missing", ""),
        (rewrite("encoder/weights", "x"), "the file 'weights' has 1 bytes, not 64", "encoder"),
        (rewrite("encoder/more", ""), "the file 'more' is not part of the bundle", "encoder"),
        (rewrite("more", ""), "the file 'more' is not part of the bundle", ""),
        (rewrite("accuracy.json", "[]"), r"the file 'accuracy\.json' was changed", ""),
        (
            rewrite("encoder/bundle.json", "{}"),
            r"bundle\.json: producer: Field required",
            "encoder/bundle.json",
        ),
        (lambda whole: (whole / "extra").mkdir(), "the folder 'extra' is not part of the bundle", ""),
        (lambda w: shutil.copytree(w / "encoder", w / "third"), "'third/golden' is a folder inside", ""),
        (reseal, "'encoder/golden' is a folder inside a folder", ""),
        (link_part, "'encoder' is a symbolic link", ""),
        (link_file, "'weights' is a symbolic link", "encoder"),
        (edit(name="other"), r"bundle\.json was changed: its content has the digest", ""),
        (edit(parts={"encoder": {"digest": "0" * 64}}), r"bundle\.json was changed", ""),
        (edit(files={}), r"bundle\.json: files: Extra inputs", "bundle.json"),
        (edit(parts={}), r"bundle\.json: parts: Dictionary should have at least 1 item", "bundle.json"),
        (edit(parts=[]), r"bundle\.json: parts: Input should be an object", "bundle.json"),
        (edit(parts={"../x": {"digest": "0" * 64}}), "a part cannot be called '../x'", "bundle.json"),
        (edit(parts={"b": DIGEST.model_dump(), "a": DIGEST.model_dump()}), "sorted by name", "bundle.json"),
    ],
)
def test_what_was_changed_is_refused(
    whole: Path, tamper: Callable[[Path], None], text: str, where: str
) -> None:
    tamper(whole)
    for read in (open_any, verify_bundle):
        with pytest.raises(IntegrityError, match=text) as caught:
            read(whole)
        assert caught.value.where in (str(whole / where), where)


def test_a_newer_format_is_no_damage(whole: Path) -> None:
    edit(schema_version=2)(whole)
    with pytest.raises(CompatibilityError, match="schema_version 2; this aotc reads up to 1"):
        open_any(whole)


@pytest.mark.parametrize(
    "name", ["golden", "Assets", "weights", "en-coder", "1st", "", "größe", "a/b", "a\n"]
)
def test_names_that_no_part_can_have(name: str) -> None:
    with pytest.raises(ValueError, match="a part cannot be called"):
        PartsContents(name="m", parts={name: DIGEST})


def test_two_parts_are_not_one_where_case_is_ignored() -> None:
    with pytest.raises(ValueError, match="'A' and 'a' are one"):
        PartsContents(name="m", parts={"A": DIGEST, "a": DIGEST})


def test_the_schema_covers_both_kinds(whole: Path) -> None:
    schema = json.loads(SCHEMA_FILE.read_bytes())
    for folder in (whole, whole / "encoder"):
        document = json.loads((folder / "bundle.json").read_bytes())
        jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**document, "more": 1}, schema)


def test_the_digest_covers_all_but_the_figures(whole: Path) -> None:
    before = verify_bundle(whole)
    contents = PartsContents(name=before.name, parts=before.parts)
    assert seal_parts(contents).digest == before.digest
    other = ({**before.parts, "more": DIGEST}, {**before.parts, "encoder": DIGEST})
    for change in ({"name": "x"}, *({"parts": parts} for parts in other)):
        assert seal_parts(contents.model_copy(update=change)).digest != before.digest


def test_a_check_of_a_part_is_recorded_beside_the_whole(whole: Path) -> None:
    assert checked_path(whole) == whole.parent / "model.checked.json"
    assert checked_path(whole / "encoder") == whole.parent / "model.encoder.checked.json"


def test_nothing_is_published_into_a_bundle(bundle: Path, contents: Callable[..., Contents]) -> None:
    with pytest.raises(UsageError, match="model/inner lies in the bundle"), Staging(bundle / "inner"):
        pass
    verify_bundle(bundle)
