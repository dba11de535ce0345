//! Context files and which files are visible.

use crate::setting_spec::SettingType::{Choice, Flag, Number as Num, TextOrTexts, Texts};
use crate::setting_spec::{SettingSpec, key};

pub(super) const SETTINGS: &[SettingSpec] = &[
    key(
        "context.fileName",
        TextOrTexts,
        "[\"GEMINI.md\",\"AGENTS.md\"]",
        "Files with instructions for the model, such as `GEMINI.md`",
    )
    .with_label_after_restart("Context file names"),
    key(
        "context.importFormat",
        Choice(&["tree", "flat"]),
        "\"tree\"",
        "Whether imported files are nested in the importing file (`tree`) or follow it (`flat`)",
    )
    .with_label_after_restart("Format of context file imports"),
    key(
        "context.includeDirectoryTree",
        Flag,
        "true",
        "Send the names of the project's files with the first request",
    )
    .with_label_after_restart("Directory tree in the first request"),
    key("context.discoveryMaxDirs", Num, "200", "No effect"),
    key(
        "context.memoryMaxTokens",
        Num,
        "10000",
        "Warn about context files with more tokens than this; 0: never (Parallax only)",
    ),
    key(
        "context.memoryBoundaryMarkers",
        Texts,
        "[\".git\"]",
        "Names that mark the root of a project; empty: do not search parent directories",
    ),
    key(
        "context.includeDirectories",
        Texts,
        "[]",
        "Directories that belong to the workspace in addition to the project",
    )
    .with_label_after_restart("Additional workspace directories"),
    key(
        "context.loadMemoryFromIncludeDirectories",
        Flag,
        "false",
        "Also read context files in additional workspace directories",
    )
    .with_label_after_restart("Context files of additional directories"),
    key("context.fileFiltering.respectGitIgnore", Flag, "true", "Skip files ignored by git")
        .with_label_after_restart("Respect .gitignore"),
    key(
        "context.fileFiltering.respectGeminiIgnore",
        Flag,
        "true",
        "Skip files listed in `.geminiignore`",
    )
    .with_label_after_restart("Respect .geminiignore"),
    key(
        "context.fileFiltering.enableRecursiveFileSearch",
        Flag,
        "true",
        "Include subdirectories in `@` completion",
    ),
    key(
        "context.fileFiltering.enableFuzzySearch",
        Flag,
        "true",
        "Use fuzzy matching in `@` completion",
    ),
    key(
        "context.fileFiltering.customIgnoreFilePaths",
        Texts,
        "[]",
        "Files with `.gitignore`-style patterns, highest precedence first",
    )
    .with_label_after_restart("Additional ignore files"),
];
