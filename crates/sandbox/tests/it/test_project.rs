//! A home directory, a workspace, and a private directory to run commands in.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use parallax_sandbox::{Launcher, Plan, SessionNamespaces, Support, Tier};
use tempfile::TempDir;

pub struct TestProject {
    _folder: TempDir,
    pub home: PathBuf,
    pub work: PathBuf,
    pub temporary: PathBuf,
}

/// Returns the program whose `main` is the sandbox.
pub fn confine() -> PathBuf {
    std::env::var_os("CONFINE").map_or_else(|| env!("CARGO_BIN_EXE_confine").into(), PathBuf::from)
}

pub fn launcher() -> Launcher {
    Launcher::from_program(confine())
}

pub fn support() -> &'static Support {
    static SUPPORT: OnceLock<Support> = OnceLock::new();
    SUPPORT.get_or_init(|| launcher().probe().unwrap())
}

/// Whether the tier works here; prints a message if not.
pub fn has(tier: Tier) -> bool {
    let best = support().tier();
    let has = match tier {
        Tier::Namespaces => best == Tier::Namespaces,
        Tier::Bubblewrap => support().seccomp.is_supported && bubblewrap_works(),
        Tier::Landlock => support().landlock.is_supported && support().seccomp.is_supported,
        Tier::Seccomp => support().seccomp.is_supported,
        Tier::Best | Tier::Nothing => true,
    };
    if !has {
        println!("skipped: {tier:?} does not work here: {:?}", support());
    }
    has
}

/// Whether the `bwrap` of the system works here by itself.
fn bubblewrap_works() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| {
        let mut command = Command::new("/usr/bin/bwrap");
        command.args(["--unshare-pid", "--unshare-ipc", "--unshare-net", "--ro-bind", "/", "/"]);
        command.args(["--dev", "/dev", "--proc", "/proc", "true"]);
        command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    })
}

/// Returns the available tiers with a separate view of files.
pub fn tiers_with_view() -> Vec<Tier> {
    [Tier::Namespaces, Tier::Bubblewrap].into_iter().filter(|tier| has(*tier)).collect()
}

/// Returns the available tiers that block writes.
pub fn tiers() -> Vec<Tier> {
    [Tier::Namespaces, Tier::Bubblewrap, Tier::Landlock]
        .into_iter()
        .filter(|tier| has(*tier))
        .collect()
}

/// Returns the available tiers that separate other hosts from servers on this host.
pub fn broker_tiers() -> Vec<Tier> {
    if !support().network_broker.is_supported {
        println!("skipped: no network broker here: {}", support().network_broker.detail);
        return Vec::new();
    }
    tiers()
}

impl TestProject {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::set_permissions(&base, fs::Permissions::from_mode(0o755)).unwrap();
        let project = Self {
            home: base.join("home"),
            work: base.join("home/work"),
            temporary: base.join("private"),
            _folder: folder,
        };
        for name in [".ssh", "work/.git/hooks", "work/.git/objects", "work/src"] {
            fs::create_dir_all(project.home.join(name)).unwrap();
        }
        fs::create_dir(&project.temporary).unwrap();
        for name in [".ssh/id", ".netrc", ".profile", "work/.env", "work/.git/config"] {
            fs::write(project.home.join(name), "secret").unwrap();
        }
        project
    }

    pub fn plan(&self, tier: Tier) -> Plan {
        let mut plan = Plan::new(self.temporary.clone());
        plan.tier = tier;
        plan.writable = vec![self.work.clone()];
        plan.workspace = plan.writable.clone();
        plan.read_only = [".git/hooks", ".git/config", ".vscode"].map(|p| self.work.join(p)).into();
        plan.hidden = vec![
            self.home.join(".ssh"),
            self.home.join(".netrc"),
            self.home.join(".nothing"),
            self.work.join(".env"),
        ];
        plan
    }

    /// Returns a sandboxed command with the test program in its search path.
    pub fn command(&self, plan: &Plan, line: &[&str]) -> Command {
        let args: Vec<OsString> = line[1..].iter().map(OsString::from).collect();
        let (program, args) = launcher().command(plan, line[0].as_ref(), &args).unwrap();
        let tools = confine().parent().unwrap().display().to_string();
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(&self.work)
            .env("HOME", &self.home)
            .env("PATH", format!("{tools}:/usr/local/bin:/usr/bin:/bin"))
            .stdin(Stdio::null());
        command
    }

    pub fn output(&self, plan: &Plan, line: &[&str]) -> Output {
        self.command(plan, line).output().unwrap()
    }

    /// Returns the output of the test program in the sandbox: `ok …` or `refused ERRNO …`.
    pub fn output_in_sandbox(&self, plan: &Plan, line: &[&str]) -> String {
        let line: Vec<&str> = std::iter::once("confine").chain(line.iter().copied()).collect();
        let output = self.output(plan, &line);
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!said.is_empty(), "{line:?} said nothing: {:?} {stderr}", output.status);
        said
    }

    #[track_caller]
    pub fn works(&self, plan: &Plan, line: &[&str]) {
        let output = self.output_in_sandbox(plan, line);
        assert!(output.starts_with("ok"), "{:?} {line:?}: {output}", plan.tier);
    }

    #[track_caller]
    pub fn refused(&self, plan: &Plan, line: &[&str], errors: &[i32]) {
        let output = self.output_in_sandbox(plan, line);
        let error = output.strip_prefix("refused ").and_then(|output| output.split(' ').next());
        let error = error.and_then(|error| error.parse().ok()).unwrap_or(-1);
        assert!(errors.contains(&error), "{:?} {line:?}: {output}", plan.tier);
    }

    /// Runs a shell script in the sandbox and returns its exit code and output.
    pub fn shell(&self, plan: &Plan, script: &str) -> (i32, String) {
        let output = self.output(plan, &["sh", "-c", script]);
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned())
    }
}

/// Starts session namespaces, or prints why there are none.
pub fn session_namespaces() -> Option<SessionNamespaces> {
    has(Tier::Namespaces).then(|| SessionNamespaces::start_with(&launcher()).unwrap())
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub const EPERM: i32 = 1;
pub const ENOENT: i32 = 2;
pub const EACCES: i32 = 13;
pub const EROFS: i32 = 30;
