//! The page of an exported session in a real browser, if one is installed.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use testkit::measure::run;

use crate::support::{LIMIT, World};

/// Text that a page must display but not execute.
const SAID: &str = r#"<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\"></div></body> ' & \" ]]> --> <style>*{display:none}</style> https://example.invalid/x.png"#;

/// Program names of browsers.
const BROWSERS: [&str; 6] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome-headless-shell",
    "headless_shell",
];

fn browser() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("CHROMIUM") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    let mut places =
        std::env::split_paths(&path).flat_map(|folder| BROWSERS.map(|name| folder.join(name)));
    let found = places.find(|place| place.is_file());
    if found.is_none() {
        // Only a notice: the page was checked as text.
        let _ = writeln!(std::io::stderr(), "no browser is here: the page was not rendered");
    }
    found
}

/// Exports the session `shown`, and returns what a browser shows of a view; `None` without one.
fn exported_view(world: &World, view: &str) -> Option<String> {
    world.run_ok(&["sessions", "export", "shown", "-f", "page.html"]);
    let page = world.home.project().join(format!("page.html#{view}"));
    let dom = rendered(&browser()?, &page, world.home.root());
    Some(strip_script_fallback(&dom))
}

#[test]
fn budgets_of_flags_and_settings_are_in_the_cost_view() {
    let world = World::new(r#"[{"text": "fine", "repeat": 0}]"#);
    let settings = json!({"budget": {"prompt": {"maxCost": 0.3}}});
    world.home.write_home(".gemini/settings.json", &settings.to_string()).expect("settings");
    world.run_ok(&["-p", "go", "--max-cost", "0.5", "--session-id", "shown"]);
    let Some(dom) = exported_view(&world, "cost") else { return };
    for budget in ["Budget (cost, session)", "of $0.5000", "Budget (cost, prompt)", "of $0.3000"] {
        assert!(dom.contains(budget), "{budget}");
    }
}

#[test]
fn calls_of_subagents_are_in_the_views() {
    let scout = "---\nname: scout\ndescription: Looks.\ntools: [read_file]\nmax_turns: 3\n---\nYou \
                 are the scout.\n";
    let script = json!([
        {"match": {"systemContains": "You are the scout"},
         "calls": [{"name": "read_file", "args": {"file_path": "notes.txt"}}]},
        {"match": {"systemContains": "You are the scout"},
         "calls": [{"name": "complete_task", "args": {"result": "read"}}]},
        {"calls": [{"name": "invoke_agent", "args": {"agent_name": "scout", "prompt": "look"}}]},
        {"text": "done", "repeat": 0},
    ]);
    let world = World::new(&script.to_string());
    world.home.write(".gemini/agents/scout.md", scout).expect("agent");
    world.home.write("notes.txt", "x").expect("notes");
    world.run_ok(&["agents", "accept"]);
    world.run_ok(&["-p", "go", "-y", "--session-id", "shown"]);
    let Some(dom) = exported_view(&world, "turns") else { return };
    assert!(dom.contains("</i>read_file"), "{}", start(&dom));
    assert!(dom.contains("scout: "), "{}", start(&dom));
}

#[test]
fn critical_path_marks_what_ran_and_not_what_waited() {
    let call = |name: &str, args: Value| json!({"name": name, "args": args});
    let script = json!([
        {"calls": [
            call("run_shell_command", json!({"command": "sleep 0.4"})),
            call("write_file", json!({"file_path": "a.txt", "content": "x"})),
        ]},
        {"text": "done", "repeat": 0},
    ]);
    let world = World::new(&script.to_string());
    world.run_ok(&["-p", "go", "-y", "--session-id", "shown"]);
    let Some(dom) = exported_view(&world, "turns") else { return };
    let row = |name: &str| {
        let (_, rest) = dom.split_once(&format!("</i>{name}")).expect("a row");
        rest.split("class=\"row\"").next().unwrap_or_default().to_owned()
    };
    assert!(row("run_shell_command").contains('◆'), "{}", row("run_shell_command"));
    // The time does not include the 0.4 seconds that it waited.
    let write = row("write_file");
    let (_, time) = write.split_once("class=\"time\"").expect("a time");
    let digits: String = time.chars().filter(char::is_ascii_digit).collect();
    assert!(digits.parse::<u64>().is_ok_and(|ms| ms < 300), "{time}");
}

#[test]
fn exported_page_keeps_a_turn_that_failed_and_was_rewound() {
    let refused = json!({"status": 400, "error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}, "repeat": 0});
    let world = World::new(&json!([{"text": "fine"}, refused]).to_string());
    world.run_ok(&["-p", "the first prompt", "--session-id", "shown"]);
    let failed = world.run(&["-p", "the refused prompt", "--resume", "shown"]);
    assert_ne!(failed.code(), 0);
    world.run_ok(&["sessions", "export", "shown", "-f", "page.html"]);
    let page = std::fs::read_to_string(world.home.project().join("page.html")).expect("the page");
    let (_, data) = page.split_once("id=\"session-data\"").expect("the data");
    let prompt = data.find("the refused prompt").expect("the prompt");
    let rewound = data.find("\"truncate\"").expect("the record that takes it back");
    assert!(prompt < rewound, "{data}");
}

#[test]
fn exported_page_shows_session_text_without_executing_it() {
    let script = format!(r#"[{{"text":"{SAID} ```\ncode <b>\n```"}}]"#);
    let world = World::new(&script);
    world.run_ok(&["-p", "show <i>me</i>", "--session-id", "shown"]);
    world.run_ok(&["sessions", "export", "shown", "-f", "page.html"]);
    let page = world.home.project().join("page.html");
    let text = std::fs::read_to_string(&page).expect("the page");
    for forbidden in ["<img", "<link", "<iframe", "url(", "onerror=\"", "<!--"] {
        assert!(!text.contains(forbidden), "{forbidden}");
    }
    assert_eq!(text.matches("<script").count(), 2, "the data and the page's own script");
    assert_eq!(text.matches("</script").count(), 2);
    assert!(text.contains("default-src 'none'"), "a page that may load nothing");
    let Some(browser) = browser() else { return };
    let dom = rendered(&browser, &page, world.home.root());
    let title = "<title>show &lt;i&gt;me&lt;/i&gt; · Parallax DevTools</title>";
    assert!(dom.contains(title), "{}", start(&dom));
    let dom = strip_script_fallback(&dom);
    assert_eq!(dom.matches("<script").count(), 2);
    assert!(!dom.contains("<img") && dom.contains(">Requests</button>"));
}

/// Returns a script for a session with all kinds of content. `address` is a URL that the page must
/// not request.
fn rich_script(address: &str) -> Value {
    let lure = format!(
        "<script>new Image().src='{address}/s';document.title='taken'</script>\n\
         <img src={address}/i onerror=\"document.title='taken'\">\n\
         <style>@import '{address}/c';</style><link rel=stylesheet href={address}/l>\n\n\
         ![a picture]({address}/p.png) and [a link](javascript:document.title='taken')"
    );
    let call = |name: &str, args: Value| json!({"calls": [{"name": name, "args": args}]});
    let todo = |text: &str, status: &str| json!({"description": text, "status": status});
    json!([
        {"chunks": [{"candidates": [{"finishReason": "STOP", "content": {"role": "model", "parts": [
            {"text": "**Looking at the limiter**\n\nThe bucket is filled too *late*.", "thought": true},
            {"functionCall": {"name": "read_file", "args": {"file_path": "src/limit.rs"}},
                "thoughtSignature": "c2ln"}]}}]}]},
        call("write_todos", json!({"todos": [
            todo("Find the cause", "completed"),
            todo("Fix the limiter", "in_progress"),
            todo("Run the tests", "pending")]})),
        call("replace", json!({
            "file_path": "src/limit.rs",
            "old_string": "    self.tokens -= 1;\n    self.fill();",
            "new_string": "    self.fill();\n    self.tokens = self.tokens.saturating_sub(1);"})),
        call("run_shell_command", json!({"command": "printf '\\033[32mok\\033[0m 3 passed\\n'; echo '<script>x()</script>'",
            "description": "run the tests"})),
        call("run_shell_command", json!({"command": "exit 3"})),
        {"text": format!("## What was wrong\n\nThe bucket was *emptied* before it was **filled**, so \
            the first call of each second was refused.\n\n1. `fill()` comes first now\n2. the count \
            cannot go below zero\n\n```rust\n/// Takes a token.\npub fn take(&mut self) -> bool {{\n    \
            self.fill(); // first\n    let had = self.tokens > 0;\n    self.tokens = \
            self.tokens.saturating_sub(1);\n    had\n}}\n```\n\n| case | before | after |\n|---|:-:|-:|\n\
            | first call | refused | 1.2 ms |\n| burst | `panic` | 3.4 ms |\n\n> Run it with \
            `cargo test limit`.\n\n- [x] fixed\n- [ ] released\n\nSee [the notes](https://example.com/notes).\n")},
        {"text": "It is on `main` as of today, and nothing else uses `take`."},
        {"text": lure},
    ])
}

#[test]
fn exported_page_makes_no_requests() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("no waiting");
    let address = format!("http://{}", listener.local_addr().expect("bound"));
    let world = World::new(&rich_script(&address).to_string());
    let code = "impl Limit {\n  pub fn take(&mut self) {\n    self.tokens -= 1;\n    self.fill();\n  }\n}\n";
    world.home.write("src/limit.rs", code).expect("a file");
    let first = "The rate limiter refuses the first call of each second. Find out why, and fix it.";
    world.run_ok(&["-p", first, "--session-id", "rich", "--yolo"]);
    world.run_ok(&["-p", "Is it released?", "-r", "rich"]);
    world.run_ok(&["-p", "Now <script>something</script> hostile.", "-r", "rich"]);
    world.run_ok(&["sessions", "export", "rich", "-f", "page.html"]);
    let page = world.home.project().join("page.html");
    let text = std::fs::read_to_string(&page).expect("the page");
    for part in [
        "<h4>What was wrong</h4>",
        "<strong>filled</strong>",
        "<span class=\"k\">fn</span>",
        "<th class=\"right\">after</th>",
        "<span class=\"line add\"><i>   4</i> +    self.tokens = self.tokens.saturating_sub(1);\n</span>",
        "<summary>Looking at the limiter</summary>",
        "☑ Find the cause",
        "ok 3 passed\n&lt;script&gt;x()&lt;/script&gt;",
        "<a href=\"#prompt-3\">Now &lt;script&gt;something&lt;/script&gt; hostile.</a>",
        "<li>3 prompts</li><li>5 tool calls</li>",
        "<a href=\"https://example.com/notes\"",
    ] {
        assert!(text.contains(part), "{part}");
    }
    if let Some(kept) = std::env::var_os("PARALLAX_KEEP_PAGE") {
        std::fs::copy(&page, kept).expect("a copy to look at");
    }
    let Some(browser) = browser() else { return };
    let dom = rendered(&browser, &page, world.home.root());
    assert!(
        dom.contains("<title>The rate limiter") && !dom.contains("<title>taken"),
        "{}",
        start(&dom)
    );
    let dom = strip_script_fallback(&dom);
    for forbidden in ["<img", "<link", "href=\"javascript:"] {
        assert!(!dom.contains(forbidden), "{forbidden}");
    }
    assert_eq!(dom.matches("<style").count(), 1);
    let connection = listener.accept().map(|(_, from)| from);
    assert!(connection.is_err(), "the page made a request: {connection:?}");
}

/// Removes what only browsers without scripts show.
fn strip_script_fallback(dom: &str) -> String {
    let (before, rest) = dom.split_once("<noscript>").expect("a transcript");
    let (_, after) = rest.split_once("</noscript>").expect("its end");
    format!("{before}{after}")
}

/// Returns the start of a page, for messages: the whole would fill the log.
fn start(dom: &str) -> String {
    dom.chars().take(2000).collect()
}

/// Returns the page as the browser rendered it.
fn rendered(browser: &Path, page: &Path, home: &Path) -> String {
    // The browser's virtual time does not wait for the page's data to be decompressed. On a busy
    // machine, it can end first.
    for _ in 0..4 {
        let dom = rendered_once(browser, page, home);
        if dom.contains("Parallax DevTools</title>") {
            return dom;
        }
    }
    rendered_once(browser, page, home)
}

#[expect(clippy::disallowed_methods, reason = "a test runs a real browser")]
fn rendered_once(browser: &Path, page: &Path, home: &Path) -> String {
    let mut command = Command::new(browser);
    command.args(["--headless", "--disable-gpu", "--no-sandbox", "--disable-dev-shm-usage"]);
    command.arg(format!("--user-data-dir={}", home.join("browser").display()));
    command.arg("--virtual-time-budget=2000").arg("--dump-dom");
    command.arg(format!("file://{}", page.display()));
    let output = run(command, None, LIMIT * 3).expect("the browser");
    assert!(!output.timed_out, "{}", output.err());
    output.stdout()
}
