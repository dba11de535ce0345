//! Advanced options.

use crate::setting_spec::SettingType::{Flag, Object as Obj, Text, Texts};
use crate::setting_spec::{SettingSpec, key};

pub(super) const SETTINGS: &[SettingSpec] = &[
    key(
        "advanced.excludedEnvVars",
        Texts,
        "[\"DEBUG\",\"DEBUG_MODE\"]",
        "Variables that a project's `.env` cannot set",
    ),
    key(
        "advanced.ignoreLocalEnv",
        Flag,
        "false",
        "Ignore plain `.env` files outside the home directory",
    )
    .with_label_after_restart("Ignore project `.env` files"),
    key("advanced.bugCommand", Obj, "", "URL for bug reports"),
    key("advanced.docsUrl", Text, "", "URL that `/docs` opens (Parallax only)"),
];
