//! Keeps `docs/reference/commands.md` in agreement with the table.

use crate::table::{CommandSpec, TABLE};

fn page() -> String {
    let mut text = String::from(
        "# Commands reference\n\nFor users of the terminal interface and of headless runs: all \
         built-in slash commands. [Commands](../commands.md) explains\nthem. This page is generated \
         from `crates/commands/src/table.rs`.\n\nMarked with \u{2020}: Gemini CLI has no such command; \
         a custom command with that name replaces it, and the built-in one is\ncalled \
         `/parallax:NAME`. \"While running\": works while the agent is running.\n\n| Command | Aliases | \
         Effect | While running | Without a terminal |\n| --- | --- | --- | --- | --- |\n",
    );
    for command in TABLE {
        write_rows(&mut text, "/", command);
    }
    text.push_str(
        "\nNext: [Custom commands](../custom-commands.md) and [Headless runs](../headless.md).\n",
    );
    text
}

fn write_rows(text: &mut String, before: &str, command: &CommandSpec) {
    if command.hidden {
        return;
    }
    let arguments = match command.arguments {
        "" => String::new(),
        arguments => format!(" {}", arguments.replace('|', "\\|")),
    };
    let aliases: Vec<String> = command.aliases.iter().map(|alias| format!("`{alias}`")).collect();
    let mark = if command.is_parallax_only { " \u{2020}" } else { "" };
    let running = if command.runs_during_turn { "yes" } else { "" };
    let headless = match command.headless {
        "" => String::new(),
        usage => format!("`{}`", usage.replace('|', "\\|")),
    };
    let name = format!("{before}{}", command.name);
    text.push_str(&format!(
        "| `{name}{arguments}`{mark} | {} | {} | {running} | {headless} |\n",
        aliases.join(" "),
        command.summary
    ));
    for subcommand in command.subcommands {
        write_rows(text, &format!("{name} "), subcommand);
    }
}

#[test]
fn reference_page_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/commands.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, page()).expect("written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page(), "docs/reference/commands.md is out of date: run with UPDATE_DOCS=1");
}
