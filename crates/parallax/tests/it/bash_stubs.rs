//! Runs random lines in real bash, in the sandbox, with a PATH of stubs that log their name: every
//! started program must be among those that the analysis found.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use parallax_policy::bash::analyze;
use parallax_sandbox::{Launcher, Plan};

use crate::support::PROGRAM;

/// The names that can run. `p*` only record that they ran; the others are system programs that
/// start the program after them.
const STUBS: [&str; 6] = ["pa", "pb", "pc", "pd", "pe", "rm"];
const REAL: [&str; 6] = ["env", "timeout", "nice", "xargs", "find", "bash"];

/// A random generator with a seed, so that a failure can be reproduced.
struct SeededRandom(u64);

impl SeededRandom {
    fn random_below(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap_or(0) % below.max(1)
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.random_below(from.len())]
    }

    fn program(&mut self) -> String {
        let name = self.pick(&STUBS);
        match self.random_below(12) {
            0 => format!("\\{name}"),
            1 => format!("\"{name}\""),
            2 => format!("{}''{}", &name[..1], &name[1..]),
            3 => format!("{}\\\n{}", &name[..1], &name[1..]),
            4 => format!("$'\\x{:02x}{}'", name.as_bytes()[0], &name[1..]),
            5 => format!("{}\"{}\"", &name[..1], &name[1..]),
            _ => name.to_owned(),
        }
    }

    fn word(&mut self, depth: usize) -> String {
        let inner =
            |dice: &mut Self| if depth == 0 { dice.program() } else { dice.list(depth - 1) };
        match self.random_below(34) {
            0 => format!("$({})", inner(self)),
            1 => format!("`{}`", inner(self).replace('\\', "\\\\").replace('`', "\\`")),
            2 => format!("\"$({})\"", inner(self)),
            3 => format!("<({})", inner(self)),
            4 => format!("${{x:-$({})}}", inner(self)),
            5 => format!("\"${{x:-`{}`}}\"", self.program()),
            6 => format!("'{}'", self.program().replace('\'', "")),
            7 => format!("\"{}\"", self.program().replace('"', "")),
            8 => format!("\\\n{}", self.program()),
            9 => format!("a#{}", self.program()),
            10 => format!("#{}", self.program()),
            11 => "{a,b}".to_owned(),
            12 => "$((1+2))".to_owned(),
            13 => format!("$(( a[$({})] ))", self.program()),
            14 => "$IFS".to_owned(),
            15 => format!("x=$({})", self.program()),
            16 => {
                "\\".to_owned()
                    + self.pick(&["'", "\"", "`", "$", ";", "&", "#", " ", "(", ")", "|", "<"])
            }
            17 => self
                .pick(&[
                    "'\"'", "\"'\"", "''", "\"\"", "'#'", "'('", "\")\"", "$'\\''", "\"\\\"\"",
                    "'`'", "\"\\`\"", "$", "~", "!", "}", "{", "[", "]",
                ])
                .to_owned(),
            18 => format!("a{}", self.word(depth.saturating_sub(1))),
            19 => "${x#a}".to_owned(),
            20 => "${x/a/b}".to_owned(),
            21 => "$x".to_owned(),
            22 => format!("${{x+{}}}", self.word(0)),
            _ => self
                .pick(&[
                    "a", "-x", "1", "x=y", "..", "do", "if", "then", "in", "done", "fi", "esac",
                    "time", "case",
                ])
                .to_owned(),
        }
    }

    fn redirection(&mut self) -> String {
        match self.random_below(10) {
            0 => ">out".to_owned(),
            1 => "2>&1".to_owned(),
            2 => "</dev/null".to_owned(),
            3 => "<<<word".to_owned(),
            4 => "&>out".to_owned(),
            5 => ">|out".to_owned(),
            6 => "{fd}>out".to_owned(),
            7 => "<>out".to_owned(),
            8 => ">&2".to_owned(),
            _ => "2>>out".to_owned(),
        }
    }

    fn simple(&mut self, depth: usize) -> String {
        let mut parts = Vec::new();
        if self.random_below(6) == 0 {
            parts.push(format!("A={}", self.word(depth)));
        }
        if self.random_below(8) == 0 {
            parts.push(self.redirection());
        }
        if self.random_below(6) == 0 {
            parts.push(self.wrapped());
        } else {
            parts.push(self.program());
        }
        for _ in 0..self.random_below(3) {
            parts.push(self.word(depth));
        }
        if self.random_below(5) == 0 {
            parts.push(self.redirection());
        }
        parts.join(" ")
    }

    fn wrapped(&mut self) -> String {
        let program = self.program();
        match self.random_below(16) {
            0 => format!("env {program}"),
            1 => format!("env -u X Y=1 {program}"),
            2 => format!("timeout 5 {program}"),
            3 => format!("nice -n 1 {program}"),
            4 => format!("command {program}"),
            5 => format!("builtin eval {program}"),
            6 => format!("eval {program}"),
            7 => format!("exec {program}"),
            8 => format!("find . -maxdepth 0 -exec {program} {{}} \\;"),
            9 => format!("xargs {program}"),
            10 => format!("bash -c '{}'", self.list(0).replace('\'', "'\\''")),
            11 => format!("env -S '{}'", program.replace('\'', "")),
            12 => format!("trap '{}' EXIT", program.replace('\'', "")),
            13 => format!("bash <<< {program}"),
            14 => format!("env {}", self.word(0)),
            _ => format!("timeout -k 1 5 {program}"),
        }
    }

    fn here_document(&mut self, depth: usize) -> String {
        let body = match self.random_below(8) {
            0 => format!("$({})", self.simple(0)),
            1 => self.program(),
            2 => "'".to_owned(),
            3 => "\\".to_owned(),
            4 => format!("`{}`", self.program()),
            5 => "EOFX".to_owned(),
            6 => format!("\\$({})", self.program()),
            _ => "text".to_owned(),
        };
        let (open, end) = match self.random_below(6) {
            0 => ("<<'EOF'", "EOF"),
            1 => ("<<-EOF", "\tEOF"),
            2 => ("<<\\EOF", "EOF"),
            3 => ("<<\"EOF\"", "EOF"),
            4 => ("<<E'O'F", "EOF"),
            _ => ("<<EOF", "EOF"),
        };
        let tail = if self.random_below(3) == 0 {
            format!(" && {}", self.simple(depth))
        } else {
            String::new()
        };
        format!("{} {open}{tail}\n{body}\n{end}\n", self.program())
    }

    fn command(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.simple(0);
        }
        let inner = depth - 1;
        match self.random_below(30) {
            0 => format!("({})", self.list(inner)),
            1 => format!("{{ {}; }}", self.list(inner)),
            2 => format!(
                "if {}; then {}; else {}; fi",
                self.list(inner),
                self.list(inner),
                self.list(inner)
            ),
            3 => format!("for i in 1 {}; do {}; done", self.word(inner), self.list(inner)),
            4 => format!("case a in (a) {};; *) {};; esac", self.list(inner), self.list(inner)),
            5 => format!("case a in a|b) {};;& *) {};; esac", self.list(inner), self.list(inner)),
            6 => format!("f() {{ {}; }}; f", self.list(inner)),
            7 => format!("while {}; do {}; break; done", self.list(inner), self.list(inner)),
            8 => format!("! {}", self.simple(inner)),
            9 => format!("time {}", self.simple(inner)),
            10 => format!("[[ -n {} ]] && {}", self.word(inner), self.simple(inner)),
            11 => format!("(( 1 < 2 )) && {}", self.simple(inner)),
            12 => format!("a=(1 {}); {}", self.word(inner), self.simple(inner)),
            13 => self.here_document(inner),
            14 => format!("export A={} B", self.word(inner)),
            15 => format!("coproc {}", self.simple(inner)),
            16 => format!("( ({}) )", self.list(inner)),
            17 => format!("(({}))", self.simple(inner)),
            18 => format!("echo $({})#{}", self.simple(inner), self.program()),
            19 => format!("{} # {}\n{}", self.simple(inner), self.word(inner), self.simple(inner)),
            20 => format!(
                "x='a[$({})]'; {}",
                self.program(),
                self.pick(&[
                    "echo $((x))",
                    "[[ x -eq 1 ]]",
                    "let x",
                    "((x))",
                    "test -v \"$x\"",
                    "printf -v \"$x\" 1",
                    "read \"$x\"",
                    "echo ${y:x}",
                    "declare -i y=x",
                    "declare -n r=x; echo $r",
                    "echo ${!x}",
                    "unset \"$x\"",
                    "[ $x ]",
                    "y[x]=1",
                    "for ((x;0;)); do :; done",
                    "RANDOM=$x",
                    "echo \"$x\"; echo $((_))",
                    "[[ $x =~ .* ]]; echo $((BASH_REMATCH))",
                    "set -- \"$x\"; echo $(($1))",
                    "exec {fd[x]}>out",
                    "OPTIND=$x; getopts a b",
                    "for i in \"$x\"; do echo $((i)); done",
                    "read y <<< \"$x\"; ((y))",
                    "a=(\"$x\"); echo $((a[0]))",
                    "export y=\"$x\"; echo $((y))",
                    "printf -v y %s \"$x\"; ((y))",
                    "f() { local y=$1; ((y)); }; f \"$x\"",
                    "case $x in *) ((x));; esac",
                    "x+=1; ((x))",
                    "mapfile -t y <<< \"$x\"; ((y))",
                    "echo ${y:=$x} $((y))",
                    "echo $((${x}))",
                    "echo $(( \"$x\" ))",
                    "echo ${y[x]}",
                    "echo ${y[$x]}",
                    "echo ${y:0:x}",
                    "[ -n \"$x\" -a -v \"$x\" ]",
                    "declare -a y=\"(\\$x)\"",
                    "declare -A y; ((y[$x]))"
                ])
            ),
            21 => format!(
                "x='$({})'; {}",
                self.program(),
                self.pick(&[
                    "echo ${x@P}",
                    "echo ${x@Q}",
                    "echo ${x@A}",
                    "echo ${x@E}",
                    "declare -a y=\"($x)\"",
                    "declare -a y; declare y=\"($x)\"",
                    "PS4=$x; set -x; :",
                    "eval \"$x\"",
                    "bash -c \"$x\"",
                    "trap \"$x\" EXIT",
                    "y=(1); declare y=\"$x\"",
                    "local y=$x",
                    "bash <<< \"$x\"",
                    "env -S \"$x\"",
                    "x=\"($x)\"; readonly -a y=$x"
                ])
            ),
            22 => format!("select i in 1; do {}; done </dev/null", self.simple(inner)),
            23 => {
                format!("[ {} = {} ] && {}", self.word(inner), self.word(inner), self.simple(inner))
            }
            24 => format!("x={}; $x {}", self.pick(&STUBS), self.program()),
            _ => self.simple(inner),
        }
    }

    fn list(&mut self, depth: usize) -> String {
        let mut text = self.command(depth);
        for _ in 0..self.random_below(3) {
            let mut next =
                self.pick(&["; ", " && ", " || ", " | ", " & ", "\n", " |& ", ";"]).to_owned();
            if text.ends_with('\n') {
                next.clear();
            }
            text.push_str(&next);
            text.push_str(&self.command(depth));
        }
        text
    }

    fn line(&mut self) -> String {
        let depth = self.random_below(4);
        let mut text = self.list(depth);
        for _ in 0..self.random_below(3).saturating_sub(1) * 2 {
            self.mutate(&mut text);
        }
        text
    }

    /// Removes a character, duplicates it, or inserts a special one.
    fn mutate(&mut self, text: &mut String) {
        let places: Vec<usize> = text.char_indices().map(|(offset, _)| offset).collect();
        if places.is_empty() {
            return;
        }
        let at = places[self.random_below(places.len())];
        match self.random_below(4) {
            0 => {
                text.remove(at);
            }
            1 => {
                let character = text[at..].chars().next().unwrap_or(' ');
                text.insert(at, character);
            }
            _ => {
                let special = self.pick(&[
                    "'", "\"", "`", "$", "\\", "\n", ";", "&", "|", "(", ")", "{", "}", "<", ">",
                    "#", " ", "\t", "[", "]", "!", "=", "\\\n", "$(", "${", "((", "))", "<<EOF\n",
                    "<(", "pa", " pa ", "*", "~", ",",
                ]);
                text.insert_str(at, special);
            }
        }
    }
}

/// A directory whose `bin` is the whole PATH, and in which lines write to `home` and `log`.
struct StubDirectory {
    root: PathBuf,
    batch: std::cell::Cell<usize>,
}

impl StubDirectory {
    fn new() -> Self {
        let temporary = std::env::temp_dir().canonicalize().unwrap();
        let root = temporary.join(format!("parallax-stubs-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::create_dir_all(root.join("home")).unwrap();
        fs::create_dir_all(root.join("log")).unwrap();
        let stub = root.join("stub");
        // Each line has its own log, because its background processes may start programs later.
        let text = format!(
            "#!/bin/sh\necho \"${{0##*/}}\" >>'{}/'\"${{STUB_LOG-lost}}\"\n",
            root.join("log").display()
        );
        fs::File::create(&stub).unwrap().write_all(text.as_bytes()).unwrap();
        fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).unwrap();
        for name in STUBS {
            symlink(&stub, root.join("bin").join(name)).unwrap();
        }
        for name in REAL {
            let real = ["/usr/bin", "/bin"]
                .iter()
                .map(|folder| Path::new(folder).join(name))
                .find(|path| path.exists());
            symlink(real.unwrap(), root.join("bin").join(name)).unwrap();
        }
        Self { root, batch: std::cell::Cell::default() }
    }

    /// Returns the permissions of the lines: a network without peers, and two writable directories.
    fn plan(&self) -> Plan {
        let mut plan = Plan::new(self.root.join("private"));
        plan.writable = vec![self.root.join("home"), self.root.join("log")];
        plan.readable = vec![self.root.clone()];
        plan
    }

    /// Returns the stubs that bash started for each line.
    #[expect(clippy::disallowed_methods, reason = "the sandbox is called by its own entry")]
    fn run(&self, lines: &[String]) -> Vec<BTreeSet<String>> {
        // One shell runs many lines, each in its own bash.
        let mut script = String::from("ulimit -t 2 -u 4000 -f 2000\n");
        let _ = fs::remove_dir_all(self.root.join("log"));
        fs::create_dir_all(self.root.join("log")).unwrap();
        let batch = self.batch.get() + 1;
        self.batch.set(batch);
        for (number, _) in lines.iter().enumerate() {
            script.push_str(&format!(
                "( cd '{home}' && STUB_LOG={batch}-{number} timeout -k 1 2 /bin/bash -c \
                 \"$L{number}\" </dev/null >/dev/null 2>&1 )\n",
                home = self.root.join("home").display(),
            ));
        }
        // Waits for background processes before the log is read.
        script.push_str("wait\n");
        let words = ["--norc".into(), "-c".into(), OsString::from(&script)];
        let (program, arguments) = Launcher::from_program(PROGRAM.into())
            .command(&self.plan(), OsStr::new("/bin/bash"), &words)
            .unwrap();
        let mut command = Command::new(program);
        command.args(arguments).env_clear();
        command.env("PATH", self.root.join("bin")).env("HOME", self.root.join("home"));
        for (number, line) in lines.iter().enumerate() {
            command.env(format!("L{number}"), line);
        }
        command.current_dir(self.root.join("home"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Exit code 121 would mean that there is no sandbox.
        assert_ne!(command.status().unwrap().code(), Some(i32::from(parallax_sandbox::REFUSED)));
        std::thread::sleep(Duration::from_millis(3));
        (0..lines.len())
            .map(|number| {
                let log = self.root.join("log").join(format!("{batch}-{number}"));
                fs::read_to_string(log).unwrap_or_default().lines().map(str::to_owned).collect()
            })
            .collect()
    }
}

impl Drop for StubDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Whether the line uses only the stubs and no path except `/dev/null`.
fn uses_only_stubs(line: &str) -> bool {
    !line.contains('\0')
        && line.len() < 2000
        && !line.replace("/dev/null", "").contains("/dev")
        && !line.replace("/dev/null", "").replace("${x/a/b}", "").contains('/')
        && !line.contains("..")
        && !line.contains("ulimit")
}

#[test]
fn programs_started_by_bash_were_predicted() {
    let seconds: u64 =
        std::env::var("PARALLAX_BASH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let seed = std::env::var("PARALLAX_BASH_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0x5eed_1e55);
    let started_at = Instant::now();
    let yard = StubDirectory::new();
    let mut dice = SeededRandom(seed);
    let (mut judged, mut started, mut unclear) = (0, 0, 0);
    loop {
        let lines: Vec<String> = std::iter::repeat_with(|| dice.line())
            .filter(|line| uses_only_stubs(line))
            .take(40)
            .collect();
        // Skip lines that the analysis cannot judge.
        let lines: Vec<String> = lines
            .into_iter()
            .filter(|line| {
                let reason = analyze(line).unanalyzable_reason;
                unclear += usize::from(reason.is_some());
                reason.is_none()
            })
            .collect();
        for (line, ran) in lines.iter().zip(yard.run(&lines)) {
            let analysis = analyze(line);
            judged += 1;
            started += ran.len();
            // A stub that is sourced with `.` runs under the shell's name.
            for name in ran.into_iter().filter(|name| STUBS.contains(&name.as_str())) {
                assert!(
                    analysis.commands.iter().any(|command| command.name() == Some(&name)),
                    "bash started `{name}` in {line:?} (seed {seed}), found {:?}",
                    analysis.commands.iter().map(|command| command.name()).collect::<Vec<_>>(),
                );
            }
        }
        if started_at.elapsed() > Duration::from_secs(seconds).max(Duration::from_millis(900)) {
            break;
        }
    }
    if seconds > 0 {
        println!("{judged} lines judged, {unclear} unclear, {started} starts");
    }
    assert!(judged > 20 && started > 20, "{judged} lines, {started} starts, {unclear} unclear");
}
