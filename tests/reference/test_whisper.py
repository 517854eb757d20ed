"""Published Whisper models: frames, hidden states, logits, transcripts and files as in transformers."""

from __future__ import annotations

import base64
import json
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from live_server import open_registry, run_server
from safetensors.torch import load_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

import heedful
from heedful.__main__ import main
from heedful.data.sound import PaddedLogMel, Sound
from heedful.errors import RecipeError, RunError
from heedful.foreign.hugging_face import open_hugging_face
from heedful.foreign.speech_folders import SpeechFolder, save_speech_model
from heedful.recipes.generation import GreedyConfig
from heedful.runs.export import export_hugging_face
from heedful.tasks.speech.prompted import PromptedRecognizer, split_sound
from heedful.tensors import FeatureBatch, Tokens

transformers = pytest.importorskip("transformers")

RATE, BANDS, SECONDS = 16000, 8, 1
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
CONTROLS = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|fr|>", "<|translate|>", "<|transcribe|>"]
CONTROLS += ["<|notimestamps|>", *(f"<|{number / 50:.2f}|>" for number in range(5))]
EOS, START, LANGUAGES = 256, 257, {"en": 258, "de": 259, "fr": 260}
TRANSLATE, TRANSCRIBE, NO_TIMES = 261, 262, 263
SIZE = 256 + len(CONTROLS)


@pytest.fixture(autouse=True)
def use_single_precision() -> Iterator[None]:
    """transformers computes frames in single precision only."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    yield
    torch.set_default_dtype(default)


def write_whisper(folder: Path, *, multilingual: bool = True, **options: Any) -> Any:
    """Write a tiny random Whisper, as transformers does, and return it."""
    torch.manual_seed(1)
    config = transformers.WhisperConfig(
        vocab_size=SIZE, num_mel_bins=BANDS, d_model=24, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=3, decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=40,
        max_source_positions=50, max_target_positions=24, pad_token_id=EOS, bos_token_id=EOS, eos_token_id=EOS,
        decoder_start_token_id=START, **options,
    )  # fmt: skip
    model = transformers.WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.7 * torch.randn_like(parameter))
    prompt: dict[str, Any] = {
        "is_multilingual": multilingual,
        "no_timestamps_token_id": NO_TIMES,
        "suppress_tokens": [5, 9, START, *LANGUAGES.values(), *range(TRANSLATE, SIZE)],
        "begin_suppress_tokens": [BYTES.index("Ġ"), EOS],
    }
    if multilingual:
        prompt["lang_to_id"] = {f"<|{code}|>": number for code, number in LANGUAGES.items()}
        prompt["task_to_id"] = {"translate": TRANSLATE, "transcribe": TRANSCRIBE}
    with torch.no_grad():  # what the model would begin with, so that it matters that this is suppressed
        starts = [[START, language, TRANSCRIBE, NO_TIMES] for language in LANGUAGES.values()]
        logits = model(input_features=compute_features(make_sounds(3)), decoder_input_ids=torch.tensor(starts)).logits
    prompt["begin_suppress_tokens"] += {*logits[:, -1, :256].argmax(1).tolist()} - {*prompt["begin_suppress_tokens"]}
    ids = {"decoder_start_token_id": START, "bos_token_id": EOS, "eos_token_id": EOS, "pad_token_id": EOS}
    for name, value in {**prompt, **ids, "max_length": 24}.items():
        setattr(model.generation_config, name, value)
    model.save_pretrained(folder)
    features = transformers.WhisperFeatureExtractor(feature_size=BANDS, chunk_length=SECONDS)
    features.save_pretrained(folder)
    tokenizer = Tokenizer(models.BPE({piece: number for number, piece in enumerate(BYTES)}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(each, special=True) for each in CONTROLS[:8]])
    tokenizer.add_tokens([AddedToken(each) for each in CONTROLS[8:]])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "WhisperTokenizer", "bos_token": CONTROLS[0], "eos_token": CONTROLS[0]})
    )
    return model


def make_sounds(count: int = 4) -> list[Tensor]:
    """Make noisy tones of several lengths, in which a tiny model finds several languages."""
    generator = torch.Generator().manual_seed(5)
    sounds = []
    for number in range(count):
        length = 4000 + 1000 * number
        tone = torch.sin(0.01 * (number + 1) * torch.arange(length))
        sounds.append(0.02 * 4 ** (number % 5) * torch.randn(length, generator=generator).clamp(-1, 1) * tone)
    return sounds


def compute_features(sounds: list[Tensor]) -> Tensor:
    extractor = transformers.WhisperFeatureExtractor(feature_size=BANDS, chunk_length=SECONDS)
    features: Tensor = extractor(
        [each.numpy() for each in sounds], sampling_rate=RATE, return_tensors="pt"
    ).input_features
    return features


@pytest.mark.parametrize(("bands", "rate"), [(80, 16000), (128, 16000), (80, 8000)])
def test_frames_are_those_of_transformers(bands: int, rate: int) -> None:
    extractor = transformers.WhisperFeatureExtractor(feature_size=bands, chunk_length=2)
    for samples in (torch.randn(20_000) * 0.1, torch.zeros(500), torch.randn(40_000).clamp(-1, 1)):
        expected = extractor(samples.numpy(), sampling_rate=16000, return_tensors="pt").input_features[0].T
        found = PaddedLogMel(bands=bands, seconds=2).compute_frames(Sound(samples, 16000))
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert PaddedLogMel(bands=bands, seconds=2).compute_frames(Sound(samples, rate)).shape == (200, bands)


def test_hidden_states_and_logits_are_those_of_transformers(tmp_path: Path) -> None:
    theirs = write_whisper(tmp_path / "whisper")
    ours = heedful.load(tmp_path / "whisper", kind=PromptedRecognizer, device="cpu").model
    features, ids = compute_features(make_sounds(3)), torch.tensor([[START, 258, 262, 263, 40, 7]] * 3)
    frames = FeatureBatch(features.transpose(1, 2), torch.arange(100).expand(3, -1))
    with torch.no_grad():
        expected = theirs(input_features=features, decoder_input_ids=ids)
        memory = ours.encoder(frames)
        torch.testing.assert_close(memory.values, expected.encoder_last_hidden_state, atol=1e-4, rtol=1e-4)
        logits, _ = ours.step(Tokens(ids, torch.arange(6).expand(3, -1)), ours.init_state(frames))
        torch.testing.assert_close(logits, expected.logits, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("language", "to_english"), [("de", False), ("fr", True), (None, False)], ids=["german", "into English", "found"]
)
def test_transcripts_are_those_of_transformers(tmp_path: Path, language: str | None, to_english: bool) -> None:
    theirs, sounds = write_whisper(tmp_path / "whisper"), make_sounds()
    model = heedful.load(tmp_path / "whisper", kind=PromptedRecognizer, device="cpu")
    ours = model.with_language(language, to_english=to_english).transcribe([Sound(each, RATE) for each in sounds])
    task = "translate" if to_english else "transcribe"
    expected = theirs.generate(compute_features(sounds), language=language, task=task, do_sample=False)
    for each, row in zip(ours, expected.tolist(), strict=True):
        content = [number for number in row[row.index(NO_TIMES) + 1 :] if number != EOS] if NO_TIMES in row else row
        assert list(each.candidates[0].ids) == content
        assert each.text == model.target.tokenizer.decode(content)
        assert content, "a transcript that is not empty"
    if language is None:
        assert len({row[1] for row in expected.tolist()}) > 1 or len({each.candidates[0].ids for each in ours}) > 1


def test_a_model_of_english_has_no_languages(tmp_path: Path) -> None:
    theirs, sounds = write_whisper(tmp_path / "whisper", multilingual=False), make_sounds(2)
    model = heedful.load(tmp_path / "whisper", kind=PromptedRecognizer, device="cpu")
    found = model.transcribe([Sound(each, RATE) for each in sounds])
    expected = theirs.generate(compute_features(sounds), do_sample=False)
    for each, row in zip(found, expected.tolist(), strict=True):
        assert list(each.candidates[0].ids) == [number for number in row if number not in (EOS, START, NO_TIMES)]
    with pytest.raises(RecipeError, match="this model knows only one language, so leave it out"):
        model.with_language("de")
    with pytest.raises(RecipeError, match="knows only English"):
        model.with_language(None, to_english=True)


def test_it_is_written_back(tmp_path: Path) -> None:
    theirs = write_whisper(tmp_path / "whisper")
    opened = open_hugging_face(tmp_path / "whisper")
    assert isinstance(opened, SpeechFolder)
    assert export_hugging_face(tmp_path / "whisper", tmp_path / "again") == ()
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("whisper", "again"))
    assert before.keys() - {"proj_out.weight"} == after.keys() - {"proj_out.weight"}
    assert all(torch.equal(before[name], tensor) for name, tensor in after.items())
    again = transformers.WhisperForConditionalGeneration.from_pretrained(tmp_path / "again").eval()
    features, ids = compute_features(make_sounds(3)), torch.tensor([[START, 258, 262, 263, 40, 7]] * 3)
    with torch.no_grad():
        expected, found = (each(input_features=features, decoder_input_ids=ids).logits for each in (theirs, again))
    torch.testing.assert_close(found, expected)


def test_a_bias_of_keys_changes_nothing_and_is_left_out(tmp_path: Path) -> None:
    write_whisper(tmp_path / "whisper")
    opened = open_hugging_face(tmp_path / "whisper")
    assert isinstance(opened, SpeechFolder)
    model, features = opened.speech_model, compute_features(make_sounds(3))
    for name, tensor in model.tensors.items():
        if name.endswith("key_value.bias"):
            tensor[: len(tensor) // 2] = torch.randn(len(tensor) // 2)
    save_speech_model(model, tmp_path / "again")
    frames = FeatureBatch(features.transpose(1, 2), torch.arange(100).expand(3, -1))
    first, second = (
        heedful.load(tmp_path / name, kind=PromptedRecognizer, device="cpu").model for name in ("whisper", "again")
    )
    with torch.no_grad():
        torch.testing.assert_close(first.encoder(frames).values, second.encoder(frames).values, atol=1e-5, rtol=1e-5)


def test_long_sounds_are_read_in_windows(tmp_path: Path) -> None:
    write_whisper(tmp_path / "whisper")
    model = heedful.load(tmp_path / "whisper", kind=PromptedRecognizer, device="cpu").with_language("en")
    loud = 0.3 * torch.randn(3 * RATE)
    loud[14_000:15_000] = 0
    windows = list(split_sound(Sound(loud, RATE), SECONDS))
    assert 14_000 <= len(windows[0].samples) <= 15_000, "it is cut where it is quiet"
    torch.testing.assert_close(torch.cat([window.samples for window in windows]), loud)
    assert all(0.8 * RATE <= len(window.samples) <= RATE for window in windows[:-1])
    (joined, short), parts = model.transcribe([Sound(loud, RATE), windows[0]]), model.transcribe(windows)
    assert joined.text == " ".join(each.text.strip() for each in parts if each.text.strip())
    assert short.text == parts[0].text
    assert joined.seconds == pytest.approx(3)
    heard: list[tuple[int, tuple[str, ...]]] = []
    told = model.transcribe(
        [Sound(loud, RATE), windows[0]],
        generation=GreedyConfig(),
        heard=lambda index, text: heard.append((index, text.tokens)),
    )
    expected = model.transcribe([Sound(loud, RATE), windows[0]], generation=GreedyConfig())
    assert [each.text for each in told] == [each.text for each in expected]
    assert [index for index, _ in heard] == sorted(index for index, _ in heard), "one behind the other"
    for index, tokens in heard:
        assert tokens == expected[index].candidates[0].tokens[: len(tokens)]
    assert len(heard) > len(windows) and {index for index, _ in heard} == {0, 1}
    with pytest.raises(RecipeError, match="longer than a window, and has one text"):
        model.transcribe(Sound(loud, RATE), n_best=2)


def test_a_record_has_the_attention_of_the_decoder(tmp_path: Path) -> None:
    write_whisper(tmp_path / "whisper")
    model = heedful.load(tmp_path / "whisper", kind=PromptedRecognizer, device="cpu").with_language("fr")
    (sound,) = make_sounds(1)
    record = model.inspect(Sound(sound, RATE))
    assert {each.role for each in record.maps} == {"decoder", "cross"}
    assert record.get_axis("source").size_text == "50"
    assert [each.token for each in record.written[:3]] == ["<|fr|>", "<|transcribe|>", "<|notimestamps|>"]
    assert record.said == model.transcribe(Sound(sound, RATE))[0].text


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("preprocessor_config.json", {"feature_size": 9}, r"feature_size = 9: the model reads num_mel_bins = 8"),
        ("preprocessor_config.json", {"chunk_length": 2}, r"200 frames of 2 s need 100 positions"),
        ("preprocessor_config.json", {"hop_length": "160"}, r"hop_length = '160': must be a whole number above 0"),
        ("config.json", {"scale_embedding": True}, r"scale_embedding = True: heedful has only False"),
        ("generation_config.json", {"begin_suppress_tokens": [999]}, r"begin_suppress_tokens: is not a list of ids"),
    ],
)
def test_a_folder_that_does_not_fit_is_refused(tmp_path: Path, file: str, change: dict[str, Any], message: str) -> None:
    write_whisper(tmp_path / "whisper")
    path = tmp_path / "whisper" / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(RunError, match=message):
        heedful.load(tmp_path / "whisper", device="cpu")


def write_wave(path: Path, samples: Tensor) -> Path:
    numbers = (samples.clamp(-1, 1) * 32767).round().to(torch.int16).numpy()
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(numbers.tobytes())
    return path


def test_commands_choose_language_and_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_whisper(tmp_path / "whisper")
    sound = write_wave(tmp_path / "sound.wav", make_sounds(1)[0])
    model = heedful.load(tmp_path / "whisper", kind=PromptedRecognizer, device="cpu")
    for options, chosen in (
        ([], model),
        (["--language", "fr"], model.with_language("fr")),
        (["--language", "de", "--to-english"], model.with_language("de", to_english=True)),
    ):
        assert main(["transcribe", str(tmp_path / "whisper"), str(sound), "--format", "jsonl", *options]) == 0
        record = json.loads(capsys.readouterr().out)
        assert record["text"] == chosen.transcribe(sound)[0].text
    assert main(["transcribe", str(tmp_path / "whisper"), str(sound), "--language", "xx"]) == 2
    assert "language: 'xx': this model knows de, en, fr" in capsys.readouterr().err
    page = tmp_path / "page.html"
    assert main(["transcribe", str(tmp_path / "whisper"), str(sound), "--page", str(page)]) == 0
    assert page.stat().st_size > 10_000


def test_a_server_chooses_language_and_task(tmp_path: Path, unchecked: None) -> None:
    write_whisper(tmp_path / "whisper")
    content = write_wave(tmp_path / "sound.wav", make_sounds(1)[0]).read_bytes()
    model = heedful.load(tmp_path / "whisper", kind=PromptedRecognizer, device="cpu")
    with run_server(open_registry({"hear": tmp_path / "whisper"})) as live:
        for options, chosen in (
            ({}, model),
            ({"language": "fr"}, model.with_language("fr")),
            ({"language": "de", "to_english": True}, model.with_language("de", to_english=True)),
        ):
            answer = live.ask("/v1/heedful/transcribe", {"sound": base64.b64encode(content).decode(), **options})
            assert answer.status == 200
            assert answer.json["answers"][0]["text"] == chosen.transcribe(tmp_path / "sound.wav")[0].text
        refused = live.ask("/v1/heedful/transcribe", {"sound": base64.b64encode(content).decode(), "language": "xx"})
        assert refused.status in (400, 422)
        assert "this model knows de, en, fr" in refused.body.decode()
