use std::os::unix::fs::symlink;

use parallax_protocol::content::PartView;
use parallax_protocol::tool::{Display, ToolErrorKind as Kind};
use serde_json::json;

use crate::test_project::TestProject;

/// An image of one pixel.
const PNG: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0\0\0\0\0\0\0\0\0IEND\xaeB`\x82";
const JPEG: &[u8] =
    b"\xff\xd8\xff\xc0\0\x0b\x08\0\x01\0\x01\x01\x01\x11\0\xff\xda\0\x02pixels\xff\xd9";

#[test]
fn line_ranges_have_a_header() {
    let project = TestProject::new();
    project.write_file("a.txt", "one\r\ntwo\nthree\n");
    let read = |args| project.call("read_file", args);
    assert_eq!(read(json!({"file_path": "a.txt"})).for_model.output, "one\ntwo\nthree\n");
    let cut = read(json!({"file_path": "a.txt", "start_line": 2, "end_line": 2}));
    assert_eq!(
        cut.for_model.output,
        "[Truncated: showing lines 2-2 of 3. Continue with start_line: 3.]\n---\ntwo"
    );
    assert_eq!(cut.for_user, Some(Display::text("Read lines 2-2 of 3 from a.txt")));
    let old_names = read(json!({"file_path": "a.txt", "offset": 1, "limit": 1}));
    assert_eq!(old_names.for_model.output, cut.for_model.output);
    let (kind, message) =
        project.failure("read_file", json!({"file_path": "a.txt", "start_line": 9}));
    assert_eq!(kind, Kind::InvalidToolParams);
    assert!(message.contains("has 3 lines"), "{message}");
    for (args, expected) in [
        (json!({"file_path": "a.txt", "start_line": 3, "end_line": 2}), "greater than"),
        (json!({"file_path": "a.txt", "start_line": 0}), "params/start_line must be >= 1"),
        (json!({"file_path": 5}), "params/file_path must be string"),
        (json!({"file_path": ""}), "must not be empty"),
    ] {
        let (kind, message) = project.failure("read_file", args);
        assert_eq!(kind, Kind::InvalidToolParams);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn long_files_and_long_lines_are_truncated() {
    let project = TestProject::new();
    project.write_file("many", "x\n".repeat(2_500));
    project.write_file("wide", format!("{}\nend", "é".repeat(50_000_000 / 2)));
    let many = project.output("read_file", json!({"file_path": "many"}));
    assert!(many.starts_with(
        "[Truncated: showing lines 1-2000 of 2500. Continue with start_line: 2001.]\n---\nx\n"
    ));
    let exact = json!({"file_path": "many", "start_line": 1, "end_line": 2400});
    assert!(project.output("read_file", exact).contains("lines 1-2400 of 2500"));
    let wide = project.output("read_file", json!({"file_path": "wide"}));
    assert!(wide.contains(&format!("\n---\n{}... [truncated]\nend", "é".repeat(2_000))));
}

#[test]
fn text_of_one_call_is_bounded() {
    let project = TestProject::new();
    let line = "é".repeat(999);
    project.write_file("large", format!("{line}\n").repeat(1_000));
    project.write_file("empty lines", "\n".repeat(500_000));
    let all = json!({"file_path": "large", "start_line": 101, "end_line": 1_000});
    let text = project.output("read_file", all);
    let (header, text) = text.split_once("\n---\n").expect("a header");
    assert_eq!(
        header,
        "[Truncated: showing lines 101-500 of 1000. Continue with start_line: 501.]"
    );
    assert_eq!(text, vec![line.as_str(); 400].join("\n"));
    assert!(project.output("read_file", json!({"file_path": "large"})).contains("lines 1-400 of"));
    let all = json!({"file_path": "empty lines", "start_line": 1, "end_line": 9_999_999});
    assert!(project.output("read_file", all).contains("Continue with start_line: 400001."));
}

#[test]
fn every_file_kind_is_read() {
    let project = TestProject::new();
    project.write_file("a.png", PNG);
    project.write_file("cut.png", &PNG[..20]);
    project.write_file(
        "flat.jpg",
        JPEG.iter().map(|byte| if *byte == 1 { 0 } else { *byte }).collect::<Vec<u8>>(),
    );
    project.write_file("photo.png", JPEG);
    project.write_file("no ending", b"GIF89a\x01\0\x01\0\0\0\0;");
    project.write_file("page.png", "<html></html>");
    project.write_file("page.pdf", "<html></html>");
    project.write_file("empty.png", "");
    project.write_file("archive.png", b"PK\x03\x04\0\0");
    project.write_file("a.ts", "let x = 1;");
    project.write_file("a.mp3", [0xff, 0xfb, 0x90, 0]);
    project.write_file("text.mp3", "lyrics");
    project.write_file("a.bin", [0, 1, 2, 3]);
    project.write_file("a.m4a", [0, 1, 2, 3]);
    project.write_file("a.svg", "<svg/>");
    project.write_file("big.svg", " ".repeat(1024 * 1024 + 1));
    let media = |name: &str| {
        let outcome = project.call("read_file", json!({"file_path": name}));
        outcome.for_model.media.first().map(|part| match part.view() {
            PartView::Inline { mime_type, .. } => mime_type.to_owned(),
            _ => String::new(),
        })
    };
    assert_eq!(media("a.png").as_deref(), Some("image/png"));
    assert_eq!(media("a.mp3").as_deref(), Some("audio/mpeg"));
    // The content decides, not the file name.
    assert_eq!(media("photo.png").as_deref(), Some("image/jpeg"));
    assert_eq!(media("no ending").as_deref(), Some("image/gif"));
    let output = |name: &str| project.output("read_file", json!({"file_path": name}));
    assert_eq!(output("page.png"), "<html></html>");
    assert_eq!(output("page.pdf"), "<html></html>");
    assert_eq!(output("empty.png"), "The file is empty: empty.png");
    assert_eq!(output("archive.png"), "Cannot display content of binary file: archive.png");
    assert_eq!(output("cut.png"), "Cannot display image cut.png: the image is truncated");
    let reason = "the width or height of the image is 0";
    assert_eq!(output("flat.jpg"), format!("Cannot display image flat.jpg: {reason}"));
    assert_eq!(output("a.ts"), "let x = 1;");
    assert_eq!(output("text.mp3"), "lyrics");
    assert_eq!(output("a.svg"), "<svg/>");
    assert!(output("big.svg").starts_with("Cannot display"));
    assert_eq!(output("a.bin"), "Cannot display content of binary file: a.bin");
    assert_eq!(
        project.failure("read_file", json!({"file_path": "a.m4a"})).0,
        Kind::ReadContentFailure
    );
    project.write_file("big.png", b"\x89PNG\r\n\x1a\n\0");
    let big =
        std::fs::OpenOptions::new().write(true).open(project.path("big.png")).expect("a file");
    big.set_len(21 * 1024 * 1024).expect("sparse");
    assert_eq!(project.failure("read_file", json!({"file_path": "big.png"})).0, Kind::FileTooLarge);
}

#[test]
fn encodings_are_decoded_and_reported() {
    let project = TestProject::new();
    project.write_file("latin", b"Gr\xf6\xdfe, f\xfcr alle B\xe4ren und \xc4pfel\n");
    project.write_file("wide", [0xff, 0xfe, b'h', 0, b'i', 0]);
    let latin = project.output("read_file", json!({"file_path": "latin"}));
    assert_eq!(latin, "[Decoded from windows-1252.]\n---\nGröße, für alle Bären und Äpfel\n");
    assert_eq!(project.output("read_file", json!({"file_path": "wide"})), "hi");
}

#[test]
fn unreadable_path_names_the_reason_and_alternatives() {
    let project = TestProject::new();
    project.write_file("src/main.rs", "");
    project.write_file(".env", "SECRET=1");
    project.write_file("secret.txt", "");
    project.write_file(".geminiignore", "secret.txt\n");
    symlink("/etc/passwd", project.path("out")).expect("link");
    let fails = |name: &str| project.failure("read_file", json!({"file_path": name}));
    let (kind, message) = fails("src/mian.rs");
    assert_eq!(kind, Kind::FileNotFound);
    assert!(
        message
            .starts_with(&format!("File not found: {}\n", project.path("src/mian.rs").display()))
    );
    assert!(message.contains("`main.rs`"), "{message}");
    assert!(fails("no/such/folder").1.contains("nearest existing directory"));
    let (kind, message) = fails("src");
    assert_eq!(kind, Kind::TargetIsDirectory);
    assert!(
        message.starts_with("Path is a directory, not a file: ") && message.contains("`main.rs`")
    );
    for name in [".env", "out", "../x"] {
        let (kind, message) = fails(name);
        assert_eq!(kind, Kind::PathNotInWorkspace);
        let start = match name {
            ".env" => "`.env` is protected from tools: /",
            _ => "Path not in workspace: Attempted path \"",
        };
        assert!(message.starts_with(start), "{message}");
    }
    let (kind, message) = fails("secret.txt");
    assert_eq!(kind, Kind::InvalidToolParams);
    assert!(message.contains("ignored by configured ignore patterns"), "{message}");
}

#[test]
fn read_many_files_returns_all_contents() {
    let project = TestProject::new();
    project.write_file("b.txt", "two");
    project.write_file("src/a.rs", "one");
    project.write_file("src/[id].rs", "odd name");
    project.write_file("src/pic.png", PNG);
    project.write_file("src/lib.so", [0, 1]);
    project.write_file("node_modules/x.rs", "no");
    project.write_file("GEMINI.md", "context");
    project.write_file("src/hidden.rs", "no");
    project.write_file(".geminiignore", "hidden.rs\n");
    let read = |include: &[&str]| project.call("read_many_files", json!({"include": include}));
    let outcome = read(&["**/*.RS", "b.txt", "src/[id].rs", "b.txt"]);
    let path = |name: &str| project.path(name).display().to_string();
    assert_eq!(
        outcome.for_model.output,
        format!(
            "--- {} ---\n\ntwo\n\n--- {} ---\n\nodd name\n\n--- {} ---\n\none\n\n\n--- End of content ---",
            path("b.txt"),
            path("src/[id].rs"),
            path("src/a.rs")
        )
    );
    let folder = read(&["src"]);
    assert!(folder.for_model.media.is_empty());
    let Some(Display::Text { text }) = folder.for_user else { panic!("a display") };
    assert!(text.contains("2 file(s) read") && text.contains("- `src/pic.png` ("), "{text}");
    assert_eq!(read(&["src/*.png"]).for_model.media.len(), 1);
    assert!(read(&["*.nothing"]).for_model.output.starts_with("No files matching"));
    assert!(!read(&["*.md"]).for_model.output.contains("context"));
    assert_eq!(
        project.failure("read_many_files", json!({"include": ["a[", ""]})).0,
        Kind::InvalidToolParams
    );
}
