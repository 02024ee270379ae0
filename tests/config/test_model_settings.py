"""The settings of the model, most of which are the named model's own by default."""

from vit_jax.config.model_settings import MODEL_FIELDS
from vit_jax.config.settings import FIELDS


def test_all_are_settings_of_the_model_group():
    assert {key for key in FIELDS if key.startswith("model.")} == MODEL_FIELDS.keys()


def test_none_stands_for_the_named_models_own_value():
    for key, field in MODEL_FIELDS.items():
        if key in ("model.name", "model.dtype"):
            continue
        assert field.default is None and field.convert(None) is None, key
        assert field.meaning.endswith("None: the named model's own value."), key
    assert MODEL_FIELDS["model.name"].default == "vit"
    assert MODEL_FIELDS["model.dtype"].default == "auto"
