//! Commands and flags of other command-line agents, with the equivalents in Parallax.

/// Flags of other agents without an alias here, and what to use instead.
const FLAGS: &[(&str, &str)] = &[
    ("--all-files", "name files and directories in the prompt: `@src`"),
    ("--ask-for-approval", APPROVAL),
    ("-a", APPROVAL),
    ("--allow-dangerously-skip-permissions", APPROVAL),
    ("--dangerously-skip-permissions", APPROVAL),
    ("--dangerously-bypass-approvals-and-sandbox", APPROVAL),
    ("--full-auto", APPROVAL),
    ("--permission-mode", APPROVAL),
    ("--agent", "start a subagent in the prompt: `@agent do this`"),
    ("--agents", "agents are files: see `parallax agents list`"),
    ("--checkpointing", "every change is recorded: `parallax undo` reverts the last turn"),
    ("--fork-session", "copy a session with `parallax sessions fork`"),
    ("--ide-mode", "see `/ide enable` in a session"),
    ("--image", "name the image in the prompt: `@picture.png`"),
    ("--images", "name the images in the prompt: `@picture.png`"),
    ("--file", "name the file in the prompt: `@path`"),
    ("--files", "name the files in the prompt: `@path`"),
    ("--json", "use `--output-format json`, or `stream-json` for events"),
    ("--mcp-config", "add servers with `parallax mcp add`, or in `mcpServers` of the settings"),
    ("--message", "use `--prompt`"),
    ("--oss", "choose a model with `--model`"),
    ("--profile", "choose a model with `--model`; settings are in `~/.parallax/settings.json`"),
    ("--proxy", "set `HTTPS_PROXY`"),
    ("--search", "web search is on: ask for it in the prompt"),
    ("--settings", "settings are in `~/.parallax/settings.json` and `.parallax/settings.json`"),
    ("--system-prompt", "add to the system prompt with `--append-system-prompt`"),
    ("--verbose", "use `--debug`"),
];

const APPROVAL: &str = "`--approval-mode` sets what needs approval";

/// Words that are commands of other agents, and what to use instead.
const WORDS: &[(&str, &str)] = &[
    ("auth", SIGN_IN),
    ("completion", COMPLETIONS),
    ("completions", COMPLETIONS),
    ("config", "settings are in `~/.parallax/settings.json`; `/settings` in a session edits them"),
    ("continue", "use `parallax --resume`"),
    ("exec", "use `parallax -p \"…\"`"),
    ("init", "run `/init` in a session"),
    ("install", "install an extension with `parallax extensions install SOURCE`"),
    ("login", SIGN_IN),
    ("logout", "run `/auth signout` in a session"),
    ("models", "run `/model` in a session, or use `--model NAME`"),
    ("resume", "use `parallax --resume`"),
    ("review", "say what to review: `parallax -p \"Review the last commit\"`"),
    ("status", "run `/about` in a session"),
    ("uninstall", "uninstall an extension with `parallax extensions uninstall NAME`"),
    ("update", UPDATE),
    ("upgrade", UPDATE),
    ("version", "use `parallax --version`"),
];

const SIGN_IN: &str = "set `GEMINI_API_KEY`, or run `/auth` in a session";
const COMPLETIONS: &str = "`parallax completions bash` prints the script for a shell";
const UPDATE: &str = "install the new version the way you installed this one; `parallax \
                      extensions update --all` updates extensions";

/// Returns what to use instead of a flag of another agent.
pub(crate) fn flag(input: &str) -> Option<&'static str> {
    let name = input.split('=').next().unwrap_or(input);
    FLAGS.iter().find(|(flag, _)| *flag == name).map(|(_, hint)| *hint)
}

/// Returns what to use instead of a command of another agent.
pub(crate) fn word(input: &str) -> Option<&'static str> {
    let is_it = |(word, _): &&(&str, &str)| word.eq_ignore_ascii_case(input.trim());
    WORDS.iter().find(is_it).map(|(_, hint)| *hint)
}
