//! Tests of process trees: ended as a whole, left in the background, and ended with the session.

use std::time::{Duration, Instant};

use parallax_exec::background::{BackgroundState, read_log};
use parallax_exec::{ProcessExit, StopReason};
use tokio_util::sync::CancellationToken;

use crate::support::{TestProject, detached, eventually, finished, is_alive, pids};

/// A child in the same group, an orphan in its own session, and a child that ignores SIGTERM.
const TREE: &str = "sleep 60 & echo $! >> pids
    (setsid sh -c 'echo $$ >> pids; exec sleep 60' &)
    sh -c 'trap \"\" TERM; echo $$ >> pids; while :; do sleep 1; done' &
    while [ $(wc -l < pids) -lt 3 ]; do sleep 0.01; done
    echo ready; wait";

#[tokio::test]
async fn cancelled_command_leaves_no_process() {
    let project = TestProject::new();
    let running = project.processes.start(project.command(TREE)).await.unwrap();
    let cancel = CancellationToken::new();
    let trigger = cancel.clone();
    let mut began = None;
    let ended = running
        .follow(&cancel, None, &mut |_| {
            began = Some(Instant::now());
            trigger.cancel();
        })
        .await;
    let output = finished(ended);
    assert_eq!(output.stop, Some(StopReason::Cancelled));
    assert_eq!(output.output.captured.head, "ready");
    assert!(began.unwrap().elapsed() < Duration::from_millis(1500));
    let pids = pids(&project, "pids");
    assert_eq!(pids.len(), 3);
    for pid in pids {
        assert!(!is_alive(pid), "{pid} survived");
    }
}

#[tokio::test]
async fn dropped_command_is_terminated() {
    let project = TestProject::new();
    let running = project.processes.start(project.command(TREE)).await.unwrap();
    eventually("the tree", || pids(&project, "pids").len() == 3).await;
    drop(running);
    let pids = pids(&project, "pids");
    eventually("the end of the tree", || pids.iter().all(|pid| !is_alive(*pid))).await;
}

#[tokio::test]
async fn dropped_registry_ends_all_processes() {
    for polite in [true, false] {
        let project = TestProject::new();
        let TestProject { folder, processes } = project;
        let project = TestProject { folder, processes: processes.clone() };
        drop(processes);
        let left = project.run_text("sleep 60 >/dev/null 2>&1 & echo $! >> pids").await;
        assert_eq!(left.remaining_processes, pids(&project, "pids"));
        let running = detached(project.detach("echo $$ >> pids; sleep 60", Duration::ZERO).await);
        eventually("the second", || pids(&project, "pids").len() == 2).await;
        let pids = pids(&project, "pids");
        assert_eq!(pids.last(), Some(&running.pid));
        assert!(pids.iter().all(|pid| is_alive(*pid)));
        if polite {
            project.processes.shutdown().await;
            let refused = project.processes.start(project.command("true")).await;
            assert!(refused.is_err());
        } else {
            drop(project);
        }
        for pid in pids {
            assert!(!is_alive(pid), "{pid} survived");
        }
    }
}

#[tokio::test]
async fn child_holding_the_pipe_does_not_delay_the_result() {
    let project = TestProject::new();
    let started_at = Instant::now();
    let done =
        project.run_text("echo shown; (sleep 0.3; echo late; sleep 60) & echo $! >> pids").await;
    assert!(started_at.elapsed() < Duration::from_millis(1000));
    assert_eq!(done.output.captured.head, "shown");
    assert_eq!(done.remaining_processes, pids(&project, "pids"));
    let pid = done.remaining_processes[0];
    assert!(is_alive(pid));
    // Later output neither kills it nor is lost.
    let known = project.processes.background_process(pid).unwrap();
    assert_eq!(known.state, BackgroundState::Running);
    let late = || read_log(&known.log, 10).is_ok_and(|log| log.lines == ["late"]);
    eventually("the late line", late).await;
    assert!(is_alive(pid));
}

#[tokio::test]
async fn background_process_continues_and_its_end_is_reported() {
    let project = TestProject::new();
    let text =
        "echo \x1b[31mstarted\x1b[0m; while [ ! -e go ]; do sleep 0.01; done; echo over; exit 4";
    let running = detached(project.detach(text, Duration::from_millis(100)).await);
    assert_eq!(running.output.captured.head, "started");
    let mut ends = project.processes.subscribe_to_ends();
    let state = || project.processes.background_process(running.pid).unwrap().state;
    assert_eq!(state(), BackgroundState::Running);
    assert_eq!(read_log(&running.log, 10).unwrap().lines, ["started"]);

    std::fs::write(project.folder.path().join("go"), "").unwrap();
    let exited = BackgroundState::Exited(Some(ProcessExit::Exited { code: 4 }));
    let report = ends.recv().await.unwrap();
    assert_eq!((report.pid, report.state, state()), (running.pid, exited, exited));
    let log = read_log(&running.log, 10).unwrap();
    assert_eq!(log.lines, ["started", "over"]);
}

#[tokio::test]
async fn orphan_exit_code_is_collected() {
    let project = TestProject::new();
    let text = "sh -c 'while [ ! -e go ]; do sleep 0.01; done; exit 5' >/dev/null 2>&1 &";
    let output = project.run_text(text).await;
    let pid = output.remaining_processes[0];
    std::fs::write(project.folder.path().join("go"), "").unwrap();
    let exited = BackgroundState::Exited(Some(ProcessExit::Exited { code: 5 }));
    let state = || project.processes.background_process(pid).unwrap().state;
    eventually("its end", || state() == exited).await;
}

#[tokio::test]
async fn command_that_ends_early_is_not_detached() {
    let project = TestProject::new();
    let output = finished(project.detach("echo quick; exit 2", Duration::from_secs(5)).await);
    assert_eq!(output.exit, ProcessExit::Exited { code: 2 });
    assert!(project.processes.background().is_empty());
}

#[tokio::test]
async fn running_command_can_be_detached_and_stopped_elsewhere() {
    let project = TestProject::new();
    let running = project.processes.start(project.command("echo here; sleep 60")).await.unwrap();
    let control = project.processes.control(running.pid()).unwrap();
    let cancel = CancellationToken::new();
    let away = detached(running.follow(&cancel, None, &mut |_| control.detach()).await);
    assert_eq!(away.output.captured.head, "here");
    project.processes.control(away.pid).unwrap().stop();
    eventually("its end", || {
        let state = project.processes.background_process(away.pid).unwrap().state;
        state != BackgroundState::Running
    })
    .await;
    assert!(!is_alive(away.pid));
}
