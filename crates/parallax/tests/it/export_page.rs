//! The page of an exported session in a real browser, where there is one.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::measure::run;

use crate::support::{LIMIT, World};

/// Words that a page must show and never obey.
const SAID: &str = r#"<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\"></div></body> ' & \" ]]> --> <style>*{display:none}</style> https://example.invalid/x.png"#;

/// What browsers are called.
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
    places.find(|place| place.is_file())
}

#[test]
fn a_page_shows_what_was_said_and_does_nothing_of_it() {
    let script = format!(r#"[{{"text":"{SAID} ```\ncode <b>\n```"}}]"#);
    let world = World::new(&script);
    world.run_well(&["-p", "show <i>me</i>", "--session-id", "shown"]);
    world.run_well(&["sessions", "export", "shown", "-f", "page.html"]);
    let page = world.home.project().join("page.html");
    let text = std::fs::read_to_string(&page).expect("the page");
    for forbidden in ["<script", "<img", "<link", "<iframe", "url(", "onerror=\""] {
        assert!(!text.contains(forbidden), "{forbidden}");
    }
    assert!(text.contains("default-src 'none'"), "a page that may load nothing");
    let Some(browser) = browser() else {
        // A notice, since nothing failed: the page was read as text only.
        let _ = writeln!(std::io::stderr(), "no browser is here: the page was not rendered");
        return;
    };
    let dom = rendered(&browser, &page, world.home.root());
    assert!(dom.contains("<title>show &lt;i&gt;me&lt;/i&gt;</title>"), "{dom}");
    assert!(!dom.contains("<script") && !dom.contains("<img"), "{dom}");
    assert!(dom.contains("&lt;script&gt;document.title='taken'&lt;/script&gt;"), "{dom}");
    assert!(dom.trim_end().ends_with("</main>\n\n</body></html>") || dom.contains("</main>"));
}

/// The page as the browser understood it.
#[expect(clippy::disallowed_methods, reason = "a test runs a real browser")]
fn rendered(browser: &Path, page: &Path, home: &Path) -> String {
    let mut command = Command::new(browser);
    command.args(["--headless", "--disable-gpu", "--no-sandbox", "--disable-dev-shm-usage"]);
    command.arg(format!("--user-data-dir={}", home.join("browser").display()));
    command.arg("--virtual-time-budget=2000").arg("--dump-dom");
    command.arg(format!("file://{}", page.display()));
    let done = run(command, None, LIMIT * 3).expect("the browser");
    assert!(!done.timed_out, "{}", done.err());
    done.out()
}
