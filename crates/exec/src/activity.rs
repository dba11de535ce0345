//! Whether programs that are talked to do something: who waits for one can tell
//! one that is still beginning from one that hangs.

use crate::family::{Family, Table};

/// Which program is meant. It may be gone.
#[derive(Debug, Clone)]
pub struct ProgramId(pub(crate) Family);

/// What a program with all that it started does at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Activity {
    /// Some thread of it computes, wants to, or waits for a disk.
    pub busy: bool,
    /// What they have computed so far, in clock ticks. Less than before when one
    /// of them is gone.
    pub ticks: u64,
}

/// Looks at programs, in the order given; `None` where the system does not tell.
/// Blocking, some milliseconds.
pub fn activity(programs: &[ProgramId]) -> Option<Vec<Activity>> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let table = Table::read();
    Some(programs.iter().map(|program| program.0.activity(&table)).collect())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::{Processes, ServedProgram};

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn who_computes_is_told_from_who_sleeps() {
        let folder = tempfile::tempdir().expect("a folder");
        let processes = Processes::new(folder.path().to_owned());
        let program = |script: &str| ServedProgram {
            program: "sh".into(),
            arguments: vec!["-c".into(), script.into()],
            directory: "/".into(),
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
            sandbox: None,
        };
        let idle = processes.serve(program("exec sleep 60")).await.expect("started");
        // The child of a shell that itself only waits.
        let busy = processes.serve(program("sh -c 'while :; do :; done'; :")).await;
        let busy = busy.expect("started");
        let ids = [idle.0.id(), busy.0.id()];
        let until = Instant::now() + Duration::from_secs(10);
        let rests = loop {
            let seen = activity(&ids).expect("told");
            let works = seen.get(1).is_some_and(|it| it.busy && it.ticks > 0);
            let rests = seen.first().is_some_and(|it| !it.busy);
            if (works && rests) || Instant::now() > until {
                break works && rests;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert!(rests);
        drop((idle, busy));
        processes.shutdown().await;
    }
}
