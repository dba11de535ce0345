//! Tests of the shell line analysis and of its expansions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use parallax_policy::bash::{
    Command, SafeReadRoots, ShellLine, analyze, analyze_expanded, danger_reason, destruction,
    git_subcommand, is_safe, is_safe_text, may_destroy, narrowest_prefixes, needs_network,
    needs_outside, written_paths,
};

const TABLE: &str = include_str!("bash_lines.txt");

fn marks(line: &ShellLine) -> String {
    let roots = [PathBuf::from("/w")];
    let place = SafeReadRoots { directory: Path::new("/w"), roots: &roots };
    let mut marks = String::new();
    let mut mark = |holds: bool, letter: char| {
        if holds {
            marks.push(letter);
        }
    };
    mark(line.unanalyzable_reason.is_some(), 't');
    mark(is_safe(line, &place), 's');
    mark(line.commands.iter().any(|command| danger_reason(command).is_some()), 'd');
    mark(line.commands.iter().any(|command| destruction(command).is_some()), 'x');
    if marks.is_empty() { "-".to_owned() } else { marks }
}

fn program(command: &Command) -> &str {
    match command.words.first().map(|word| word.text.as_deref()) {
        Some(Some("")) => "=",
        Some(Some(text)) => text,
        _ => "?",
    }
}

#[test]
fn bash_analysis_matches_the_table() {
    let mut problems = Vec::new();
    let mut rows = 0;
    for row in TABLE.lines().filter(|row| !row.is_empty() && !row.starts_with("# ")) {
        let mut fields = row.splitn(3, '|');
        let (Some(expected), Some(programs), Some(line)) =
            (fields.next(), fields.next(), fields.next())
        else {
            panic!("a row has three fields: {row}");
        };
        rows += 1;
        let text = line
            .strip_prefix(' ')
            .unwrap_or(line)
            .replace('⏎', "\n")
            .replace('␍', "\r")
            .replace('⇥', "\t")
            .replace('⍽', "\u{a0}");
        let analysis = analyze(&text);
        let found: Vec<&str> = analysis.commands.iter().map(program).collect();
        let (expected, programs) = (expected.trim(), programs.trim_matches(' '));
        if marks(&analysis) != expected || found.join(" ").trim_matches(' ') != programs {
            problems.push(format!(
                "{row}\n   found {} | {} | {:?}",
                marks(&analysis),
                found.join(" "),
                analysis.unanalyzable_reason
            ));
        }
    }
    assert!(rows >= 250, "{rows} rows");
    assert!(problems.is_empty(), "{} of {rows} rows:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn analysis_limits_hold() {
    let start = std::time::Instant::now();
    for line in [
        "a".repeat(1 << 20),
        "$(".repeat(20_000),
        "(".repeat(20_000),
        "`".repeat(20_000),
        "{ ".repeat(20_000),
        "env ".repeat(10_000),
        "${x:-".repeat(10_000),
        "cat <<E\n".repeat(5_000),
        "bash -c '".repeat(1_000),
        format!("ls{}", " ; sudo env ls".repeat(4_000)),
        "if ".repeat(20_000),
        "a=(".repeat(10_000),
        "[[ ( ".repeat(10_000),
        "$((".repeat(10_000),
        "f() ".repeat(10_000),
        "! ".repeat(30_000),
        "coproc ".repeat(8_000),
        "x\\\n".repeat(20_000),
    ] {
        let analysis = analyze(&line);
        assert!(analysis.unanalyzable_reason.is_some() || line.starts_with("x\\"), "{:.20}…", line);
    }
    assert!(start.elapsed() < std::time::Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn expansion_of_hostile_lines_is_bounded() {
    let start = std::time::Instant::now();
    for line in [
        "{a,b}".repeat(5_000),
        "$(echo ".repeat(5_000),
        "`echo ".repeat(5_000),
        "A=$A$A; ".repeat(4_000),
        "A=${A}${A}x; ".repeat(4_000) + "$A",
        format!("A=x; {} $A", "A=\"$A$A\"; ".repeat(2_000)),
        (0..2_000).map(|it| format!("A{}=x{it}; ", it % 50)).collect::<String>() + "$A1 $A2",
        "echo x | sh | ".repeat(3_000) + "sh",
        "eval \"$X\"; ".repeat(3_000),
        "alias a=b; a; ".repeat(2_000),
        "alias a='a a'; a".to_owned(),
        "f() { f $@ $@; }; f a; ".repeat(500),
        "set -- $@ $@ x; ".repeat(1_000),
        "git -c alias.a='!git a' a; ".repeat(1_000),
        "sh -c \"$(".repeat(500),
        "${x:-".repeat(5_000) + &"}".repeat(5_000),
    ] {
        analyze_expanded(&line, None, Path::new("/w"), &BTreeMap::new());
    }
    // An unoptimized build takes a tenth of this.
    assert!(start.elapsed() < std::time::Duration::from_secs(20), "{:?}", start.elapsed());
}

fn parse_single(line: &str) -> Command {
    analyze(line).commands.last().cloned().unwrap()
}

#[test]
fn written_paths_are_found() {
    for (line, expected) in [
        ("rm -rf a b", "a b"),
        ("touch -d now a", "a"),
        ("cp x .git/hooks", ".git/hooks .git/hooks/x"),
        ("cp -t d x y", "d d/x d/y"),
        ("cp \"$HOME/.netrc\" $HOME/.aws/credentials d", "d d/.netrc d/credentials"),
        ("mv hook .git/hooks/pre-commit", "hook .git/hooks/pre-commit"),
        ("ln -s /x .envrc", ".envrc .envrc/x"),
        ("tee -a .bashrc", ".bashrc"),
        ("sed -i s/a/b/ .git/config", ".git/config"),
        ("sed -i -e s/a/b/ x", "x"),
        ("sed s/a/b/ x", ""),
        ("dd if=a of=b", "b"),
        ("tar -xf a.tar -C d", "d"),
        ("tar xf a.tar", "."),
        ("unzip a.zip -d d", "d"),
        ("curl -o out http://x", "out"),
        ("curl -fsSLo out http://x", "out"),
        ("curl --output=out http://x", "out"),
        ("wget -O out http://x", "out"),
        ("chmod +x a", "a"),
        ("truncate -s 0 a", "a"),
        ("install -m 755 x .git/hooks/y", ".git/hooks/y .git/hooks/y/x"),
        ("sort -o out in", "out"),
        ("git clone http://x d", "d"),
        ("git clone r/.vscode.git", ".vscode"),
        ("git clone -q --depth 1 ./r/.husky.git/", ".husky"),
        ("git clone git@host:team/.claude", ".claude"),
        ("git clone .zed/.git", ".zed"),
        ("git clone file://$PWD/r/.idea.git", ".idea"),
        ("git clone r/.kiro.bundle", ".kiro"),
        ("git clone $url", ""),
        ("sudo tee /etc/x", "/etc/x"),
        ("ls a", ""),
    ] {
        let texts: Vec<String> =
            written_paths(&parse_single(line)).into_iter().filter_map(|word| word.text).collect();
        assert_eq!(texts.join(" "), expected, "{line}");
    }
    assert!(written_paths(&parse_single("rm $x")).iter().any(|word| word.text.is_none()));
}

#[test]
fn suggested_rule_is_as_narrow_as_possible() {
    for (line, expected) in [
        ("git push origin main", "git push,git"),
        ("cargo test --all", "cargo test,cargo"),
        ("npm run build -- --x", "npm run build,npm run,npm"),
        ("python -m pytest -q", "python -m pytest,python -m,python"),
        ("python x.py a", "python x.py,python"),
        ("ls && make all", "make all,make"),
        ("sudo env A=b timeout 5 cargo build", "cargo build,cargo"),
        ("bash -c 'cargo fmt && rm x'", "cargo fmt,cargo,rm"),
        ("./run.sh a", "./run.sh"),
        ("git -c a=b log", "git"),
        ("git -C sub commit -m x", "git -C sub commit,git"),
        ("git --no-pager -C sub push", "git --no-pager -C sub push,git"),
        ("echo \"$(touch x)\"", "echo,touch"),
        ("$x", ""),
    ] {
        let prefixes: Vec<String> =
            narrowest_prefixes(&analyze(line)).iter().map(|prefix| prefix.join(" ")).collect();
        assert_eq!(prefixes.join(","), expected, "{line}");
    }
}

#[test]
fn required_access_of_commands_is_found() {
    for line in [
        "curl x",
        "git push",
        "git -C a fetch",
        "npm ci",
        "yarn",
        "cargo install x",
        "pip install x",
        "ssh h",
    ] {
        assert!(needs_network(&parse_single(line)), "{line}");
    }
    for line in ["git log", "npm test", "cargo build", "yarn --version", "python x.py"] {
        assert!(!needs_network(&parse_single(line)), "{line}");
    }
    assert!(needs_outside(&analyze("sudo ls").commands[0]).is_some());
    assert!(needs_outside(&parse_single("docker ps")).is_some());
    assert!(needs_outside(&parse_single("ls")).is_none());
}

#[test]
fn git_call_is_parsed() {
    let command = parse_single("git -C sub --no-pager -c a=b log -5");
    let call = git_subcommand(&command).unwrap();
    assert_eq!(
        (call.name, call.words.len(), call.selects_other_repository, call.configured),
        ("log", 1, true, true)
    );
    assert!(git_subcommand(&parse_single("git $x")).is_none());
    assert!(git_subcommand(&parse_single("ls")).is_none());
}

#[test]
fn destructive_command_names_its_targets() {
    let found = destruction(&parse_single("rm -rf a \"$x\" -- b")).unwrap();
    let operands: Vec<&str> = found.operands.iter().map(|word| word.source.as_str()).collect();
    assert_eq!(operands, ["a", "\"$x\"", "b"]);
    assert!(destruction(&parse_single("git reset --hard")).unwrap().operands.is_empty());
}

#[test]
fn force_flag_is_ignored_and_single_files_are_not_destructive() {
    for line in [
        "rm a",
        "rm -f README.md",
        "rm --force a b",
        "truncate -s 0 a",
        "cp /dev/null a",
        ": > a",
        "dd if=/dev/zero of=a",
        "mv -f a b",
        "git status",
        "git commit -am x",
        "git stash",
        "git clean -n",
        "git clean -fdn",
        "npx rimraf --version",
        "yarn install",
        "cross-env A=1 ls",
    ] {
        assert_eq!(destruction(&parse_single(line)), None, "{line}");
    }
    assert_eq!(danger_reason(&parse_single("rm -f a")), None);
    for line in [
        "git clean -d",
        "git -c clean.requireForce=false clean -dxq",
        "git clean -xdi",
        "rimraf src",
        "npx rimraf src",
        "shx rm -rf src",
        "git clean -fdn --no-dry-run",
        "git clean -d -n --no-dry",
        "yarn rimraf src",
        "pnpm rimraf src",
        "yarn --silent shx rm -r src",
        "cross-env A=1 B=2 rimraf src",
        "npx cross-env A=1 rimraf src",
        "npx premove src",
        "nix-shell --run 'rm -rf src'",
        "nix develop -c rm -rf src",
        "capsh -- -c 'rm -rf src'",
        "op run --env-file a -- rm -rf src",
        "rm -r src",
        "rm -rf src",
        "rm -R -- src",
        "rm *.c",
        "find . -delete",
        "rsync --delete a/ b",
        "git reset --hard",
        "git clean -fd",
        "git checkout -- .",
        "git push --force",
        "dd if=a of=/dev/sda",
        "mkfs.ext4 /dev/sda1",
        "chmod -R 777 /",
    ] {
        assert!(destruction(&parse_single(line)).is_some(), "{line}");
    }
}

#[test]
fn no_command_outside_the_workspace_is_harmless() {
    let roots = [PathBuf::from("/w")];
    assert!(is_safe_text("ls", Path::new("/w/sub"), &roots));
    assert!(is_safe_text("cat ../a", Path::new("/w/sub"), &roots));
    assert!(!is_safe_text("ls", Path::new("/tmp"), &roots));
    assert!(!is_safe_text("ls", Path::new("/wx"), &roots));
}

#[test]
fn build_tool_with_an_option_that_runs_a_program_is_dangerous() {
    for line in [
        "go test -exec ./x ./...",
        "go build --toolexec=./x",
        "go vet -vettool=./x",
        "make SHELL=./x",
        "make test CC:=./x",
        "make .SHELLFLAGS=-x",
        "make --eval='$(shell x)'",
        "make -E '$(shell x)'",
        "npm test --script-shell=./x",
        "npm --userconfig=./rc ci",
        "cargo test --config target.x.runner=./x",
        "gradle -I x.gradle build",
    ] {
        assert!(danger_reason(&parse_single(line)).is_some(), "{line}");
    }
    for line in [
        "go test ./... -run TestExec -v",
        "go run . -- -exec x",
        "make -j8 test VERBOSE=1",
        "npm test -- --shell x",
        "cargo test --release",
        "cargo test -- --config x",
        "gradle build --info",
    ] {
        assert_eq!(danger_reason(&parse_single(line)), None, "{line}");
    }
}

#[test]
fn deletion_through_a_program_that_starts_others_is_destructive() {
    for line in
        ["unshare -r rm -rf src", "chroot . rm -rf src", "setpriv --reuid 1 git reset --hard"]
    {
        let command = analyze(line).commands.first().cloned().unwrap();
        assert!(may_destroy(&command).is_some(), "{line}");
    }
    for line in ["unshare -r ls", "perf stat cargo build"] {
        let command = analyze(line).commands.first().cloned().unwrap();
        assert_eq!(may_destroy(&command), None, "{line}");
    }
    assert_eq!(destruction(&parse_single("git clean -ndx")), None);
}
