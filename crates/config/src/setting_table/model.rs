//! Models, budgets, providers, and subagents.

use crate::setting_spec::SettingType::{Choice, Flag, Number as Num, Object as Obj, Text};
use crate::setting_spec::{SettingSpec, key};

pub(super) const SETTINGS: &[SettingSpec] = &[
    key(
        "model.name",
        Text,
        "",
        "Model of new sessions: a name, or `auto` to choose one for each task",
    )
    .with_label_after_restart("Model"),
    key(
        "model.routing",
        Choice(&["on", "rules", "off"]),
        "\"on\"",
        "How `auto` chooses a model: rules and a classifier model, rules only, or not at all (Parallax only)",
    ),
    key(
        "model.routingTimeoutMs",
        Num,
        "1500",
        "Timeout of the classifier model in milliseconds (Parallax only)",
    ),
    key(
        "model.routingThreshold",
        Num,
        "90",
        "Minimum classifier score for the strong model, 0 to 100 (Parallax only)",
    ),
    key(
        "model.fallback",
        Choice(&["ask", "auto", "off"]),
        "\"ask\"",
        "Whether to use another model when the chosen one is unavailable (Parallax only)",
    ),
    key(
        "model.maxSessionTurns",
        Num,
        "-1",
        "Stop a run after this many model requests; -1: no limit",
    )
    .with_label_after_restart("Maximum model requests per run"),
    key(
        "budget.session.maxCost",
        Num,
        "",
        "Maximum cost of a session in US dollars (Parallax only)",
    ),
    key("budget.session.maxTokens", Num, "", "Maximum tokens of a session (Parallax only)"),
    key(
        "budget.session.timeout",
        Num,
        "",
        "Maximum total duration of the turns of a run in seconds (Parallax only)",
    ),
    key("budget.prompt.maxCost", Num, "", "Maximum cost of a prompt in US dollars (Parallax only)"),
    key("budget.prompt.maxTokens", Num, "", "Maximum tokens of a prompt (Parallax only)"),
    key(
        "budget.prompt.timeout",
        Num,
        "",
        "Maximum duration of a prompt in seconds (Parallax only)",
    ),
    key("model.summarizeToolOutput", Obj, "", "Tools whose output is summarized"),
    key(
        "model.compressionThreshold",
        Num,
        "0.5",
        "Share of the context window at which the history is compacted",
    ),
    key(
        "model.compactAtTokens",
        Num,
        "100000",
        "Number of tokens at which the history is compacted (Parallax only)",
    ),
    key(
        "model.disableLoopDetection",
        Flag,
        "false",
        "Disable loop detection, which stops a model that repeats itself",
    )
    .with_label_after_restart("Disable loop detection"),
    key("model.skipNextSpeakerCheck", Flag, "true", "No effect: the next speaker is never checked"),
    key(
        "model.streamIdleTimeoutMs",
        Num,
        "120000",
        "Timeout for a stream without data in milliseconds; 0: never (Parallax only)",
    )
    .with_label_after_restart("Stream idle timeout (ms)"),
    key("modelConfigs", Obj, "", "Named generation presets, overrides, and model definitions"),
    key(
        "providers",
        Obj,
        "{}",
        "Model providers by name: wire, base URL, key variable, headers, models (Parallax only)",
    ),
    key("agents.overrides", Obj, "{}", "Settings of individual agents"),
];
