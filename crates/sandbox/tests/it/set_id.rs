//! Tests of setuid and setgid programs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::test_project::{TestProject, support, tiers};

fn modes(project: &TestProject) -> Vec<(String, u32)> {
    let entries = fs::read_dir(&project.work).unwrap().flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    files
        .map(|entry| {
            let mode = entry.metadata().unwrap().permissions().mode();
            (entry.file_name().to_string_lossy().into_owned(), mode & 0o6000)
        })
        .collect()
}

#[test]
fn set_id_bit_of_file_is_rejected_in_every_tier() {
    for tier in tiers() {
        let project = TestProject::new();
        let plan = project.plan(tier);
        for bits in ["4", "2", "6"] {
            for script in [
                format!("touch a && chmod {bits}755 a"),
                format!("touch c && install -m {bits}755 c d"),
                format!(
                    "perl -e 'use Fcntl; sysopen(F, q(e), O_CREAT | O_WRONLY, 0{bits}755) or die'"
                ),
                format!("touch f && perl -e 'open(F, q(<), q(f)); chmod(0{bits}755, *F) or die'"),
                format!("mkdir -p g && mkfifo g/h && chmod {bits}755 g/h"),
                format!("python3 -c 'import os; os.mknod(\"i\", 0o{bits}755)'"),
            ] {
                let (code, output) = project.shell(&plan, &script);
                assert_ne!(code, 0, "{tier:?} {script}: {output}");
            }
        }
        for letter in ["u", "g", "ug"] {
            let (code, output) = project.shell(&plan, &format!("touch b && chmod {letter}+s b"));
            assert_ne!(code, 0, "{tier:?} {letter}: {output}");
        }
        let set: Vec<_> = modes(&project).into_iter().filter(|(_, bits)| *bits != 0).collect();
        assert!(set.is_empty(), "{tier:?} {set:?}");
    }
}

#[test]
fn uninspectable_syscall_is_rejected_in_every_tier() {
    // A library then uses the call whose mode the filter checks.
    let script = r#"
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
for mode in (0o2705, 0o4755, 0o6755, 0o644):
    how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_RDWR, mode, 0)
    made = libc.syscall(437, -100, b"p%o" % mode, how, 24)
    print(made, errno.errorcode[ctypes.get_errno()])
"#;
    for tier in tiers() {
        let project = TestProject::new();
        fs::write(project.work.join("open.py"), script).unwrap();
        let (code, output) = project.shell(&project.plan(tier), "python3 open.py");
        assert_eq!((code, output.as_str()), (0, "-1 ENOSYS\n".repeat(4).as_str()), "{tier:?}");
        let created = modes(&project).into_iter().any(|(name, _)| name.starts_with('p'));
        assert!(!created, "{tier:?}");
    }
}

#[test]
fn setgid_bit_of_a_directory_is_allowed_with_a_broker() {
    if !support().network_broker.is_supported {
        return;
    }
    for tier in tiers() {
        let project = TestProject::new();
        let plan = project.plan(tier);
        let script = "touch d && chmod 755 d && mkdir -m 2775 e && mkdir f && chmod g+s f && \
                      stat -c %a e f";
        let (code, output) = project.shell(&plan, script);
        assert_eq!((code, output.as_str()), (0, "2775\n2755\n"), "{tier:?}");
        // Only for files that the command may write.
        let outside = project.home.join("shared");
        fs::create_dir_all(&outside).unwrap();
        let (code, _) = project.shell(&plan, &format!("chmod g+s {}", outside.display()));
        assert_ne!(code, 0, "{tier:?}");
        assert_eq!(fs::metadata(&outside).unwrap().permissions().mode() & 0o2000, 0, "{tier:?}");
    }
}

#[test]
fn set_id_bit_is_lost_when_a_command_writes_the_file() {
    for tier in tiers() {
        let project = TestProject::new();
        let plan = project.plan(tier);
        let program = project.work.join("program");
        fs::write(&program, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o6755)).unwrap();
        let (code, output) = project.shell(&plan, "echo echo changed >> program");
        assert_eq!((code, output.as_str()), (0, ""), "{tier:?}");
        assert_eq!(fs::metadata(&program).unwrap().permissions().mode() & 0o6000, 0, "{tier:?}");
    }
}

#[test]
fn file_cannot_be_given_to_another_user_or_group() {
    for tier in tiers() {
        let project = TestProject::new();
        let plan = project.plan(tier);
        for owner in ["1:1", ":1", "2"] {
            let (code, output) = project.shell(&plan, &format!("touch a && chown {owner} a"));
            assert_ne!(code, 0, "{tier:?} {owner}: {output}");
        }
        // Keeping the owner is allowed; copies and archives do that.
        let (code, output) =
            project.shell(&plan, "touch b && chown \"$(id -u):$(id -g)\" b && cp -p b c");
        assert_eq!((code, output.as_str()), (0, ""), "{tier:?}");
    }
}
