use std::os::unix::fs::symlink;

use parallax_files::{RuleSource, WalkOptions, walk};

use crate::TestWorkspace;

fn ignored(fixture: &TestWorkspace, name: &str) -> Option<RuleSource> {
    fixture.workspace.is_ignored(&fixture.path(name)).map(|reason| reason.source)
}

#[test]
fn gitignore_rules_apply_at_all_levels_and_only_in_a_repository() {
    let fixture = TestWorkspace::with(|base, options| {
        options.root = base.join("work/sub");
        std::fs::create_dir(&options.root).expect("a folder");
    });
    fixture.write_file("work/.gitignore", "*.log\n/sub/only-here\n");
    fixture.write_file("work/sub/.gitignore", "!keep.log\ntarget/\n");
    fixture.write_file("work/sub/a.log", "");
    fixture.write_file("work/sub/target/x", "");
    assert_eq!(ignored(&fixture, "work/sub/a.log"), None, "no repository");
    fixture.write_file("work/.git/info/exclude", "excluded\n");
    for (name, expected) in [
        ("work/sub/a.log", true),
        ("work/sub/keep.log", false),
        ("work/sub/deep/er/keep.log", false),
        ("work/sub/only-here", true),
        ("work/sub/deep/only-here", false),
        ("work/sub/target/x", true),
        ("work/sub/excluded", true),
        ("work/sub/other", false),
    ] {
        assert_eq!(ignored(&fixture, name).is_some(), expected, "{name}");
    }
    // A nested repository has its own rules, and a changed file takes effect immediately.
    fixture.write_file("work/sub/nested/.git/HEAD", "");
    assert_eq!(ignored(&fixture, "work/sub/nested/a.log"), None);
    fixture.write_file("work/sub/.gitignore", "other\n# longer than before\n");
    assert_eq!(ignored(&fixture, "work/sub/other"), Some(RuleSource::Git));
}

#[test]
fn higher_precedence_ignore_files_win() {
    let fixture = TestWorkspace::with(|_, options| {
        options.filtering.custom_ignore_files = vec![".aiignore".into()]
    });
    fixture.write_file("work/.git/HEAD", "");
    fixture.write_file("work/.gitignore", "by-git\nboth\nall\n");
    fixture.write_file("work/.geminiignore", "!both\nby-gemini\n!all\n");
    fixture.write_file("work/.aiignore", "!by-gemini\nall\n");
    fixture.write_file("work/sub/.geminiignore", "only-root-counts\n");
    assert_eq!(ignored(&fixture, "work/by-git"), Some(RuleSource::Git));
    assert_eq!(ignored(&fixture, "work/both"), None);
    assert_eq!(ignored(&fixture, "work/by-gemini"), None);
    assert_eq!(ignored(&fixture, "work/all"), Some(RuleSource::Custom));
    assert_eq!(ignored(&fixture, "work/sub/only-root-counts"), None);
    assert_eq!(ignored(&fixture, "work/.git/HEAD"), Some(RuleSource::BuiltIn));
}

#[test]
fn links_are_ignored_with_their_target_and_pipes_do_not_hang() {
    let fixture = TestWorkspace::new();
    fixture.write_file("work/.geminiignore", "secret/\nlinked\n");
    fixture.write_file("work/secret/a", "");
    fixture.write_file("work/plain", "");
    symlink("secret/a", fixture.path("work/alias")).expect("link");
    symlink("plain", fixture.path("work/linked")).expect("link");
    assert!(ignored(&fixture, "work/alias").is_some());
    assert!(ignored(&fixture, "work/linked").is_some());
    fixture.write_file("work/.git/HEAD", "");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        fixture.path("work/.gitignore"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("a pipe");
    assert!(ignored(&fixture, "work/plain").is_none());

    let roots = fixture.workspace.roots();
    let mut names: Vec<String> = walk(&fixture.workspace, &roots, &WalkOptions::default())
        .build()
        .filter_map(Result::ok)
        .filter(|entry| entry.depth() > 0)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, [".geminiignore", ".gitignore", "plain"]);
}
