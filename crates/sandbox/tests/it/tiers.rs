//! Tests of the reported kernel support, and of weaker tiers.

use parallax_sandbox::{REFUSED, SupervisorError, Tier};

use crate::test_project::{EPERM, TestProject, has, support, text};

#[test]
fn sandbox_support_has_a_readable_description() {
    let support = support();
    let lines = support.explain();
    assert!(lines.iter().any(|line| line.starts_with("Strength: ")));
    for (finding, name) in [(&support.landlock, "Landlock"), (&support.mounts, "mount")] {
        assert_eq!(
            !finding.is_supported,
            lines.iter().any(|line| line.starts_with("Missing") && line.contains(name)),
            "{lines:#?}"
        );
    }
    assert_eq!(support.protected_unenforced(), support.tier() > Tier::Bubblewrap);
}

#[test]
fn seccomp_alone_blocks_the_network() {
    if !has(Tier::Seccomp) {
        return;
    }
    let project = TestProject::new();
    let plan = project.plan(Tier::Seccomp);
    project.refused(&plan, &["connect", "192.0.2.1:80"], &[EPERM]);
    project.works(&plan, &["write", text(&project.home.join("anything"))]);
}

#[test]
fn sandbox_that_cannot_be_set_up_runs_nothing() {
    let project = TestProject::new();
    let mut plan = project.plan(Tier::Best);
    plan.writable.push(project.home.join("missing"));
    let output = project.output(&plan, &["touch", text(&project.work.join("ran"))]);
    assert_eq!(output.status.code(), Some(i32::from(REFUSED)));
    let words = String::from_utf8_lossy(&output.stderr);
    let refusal = SupervisorError::read(i32::from(REFUSED), &words).unwrap();
    assert!(refusal.message.contains("missing"), "{words}");
    assert!(!project.work.join("ran").exists());
    assert_eq!(SupervisorError::read(1, &words), None);
}
