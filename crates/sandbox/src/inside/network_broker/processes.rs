//! Calls that change the limits, priority, or memory of another process. Landlock lets a command do
//! this to every process of the same user, including the one that guards it. Without a process
//! namespace that hides these, the broker allows only processes of the session.

use rustix::io::Errno;

use crate::inside::kernel::notify::SyscallNotification;

const SCHED_SETATTR: libc::c_long = libc::SYS_sched_setattr;
const PROCESS_MRELEASE: libc::c_long = 448;

/// Calls whose first argument is the process; 0 means the caller.
pub(crate) const CALLS_BY_PROCESS: [libc::c_long; 7] = [
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    SCHED_SETATTR,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    PROCESS_MRELEASE,
];

/// Returns the calls that the filter passes to the broker.
pub(super) fn calls() -> Vec<libc::c_long> {
    let by_kind = [libc::SYS_prlimit64, libc::SYS_setpriority, libc::SYS_ioprio_set];
    CALLS_BY_PROCESS.into_iter().chain(by_kind).collect()
}

/// Checks whether the call is allowed. Returns `None` if it is not one of [`calls`]. `is_own`
/// returns whether a process or thread belongs to the session. Only numbers are examined, so the
/// kernel may execute the call itself afterwards.
pub(super) fn check_access(
    notification: &SyscallNotification,
    is_own: impl Fn(i32) -> bool,
) -> Option<Result<(), Errno>> {
    let [first, second, third, ..] = notification.arguments;
    // These arguments are `int`, so the upper bits are ignored.
    let int = |argument: u64| ((argument & 0xffff_ffff) as u32).cast_signed();
    let one = |number: i32| number == 0 || is_own(number);
    let allowed = match notification.call {
        // Reading limits changes nothing.
        libc::SYS_prlimit64 => third == 0 || one(int(first)),
        libc::SYS_setpriority => int(first) == libc::PRIO_PROCESS as i32 && one(int(second)),
        libc::SYS_ioprio_set => {
            const WHO_PROCESS: i32 = 1;
            int(first) == WHO_PROCESS && one(int(second))
        }
        // This call names a process by a descriptor, which may refer to any process.
        PROCESS_MRELEASE => false,
        call if CALLS_BY_PROCESS.contains(&call) => one(int(first)),
        _ => return None,
    };
    Some(if allowed { Ok(()) } else { Err(Errno::PERM) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_session_processes_may_be_referenced() {
        let call = |call, arguments: [u64; 3]| {
            let [a, b, c] = arguments;
            let notification =
                SyscallNotification { id: 0, thread: 0, call, arguments: [a, b, c, 0, 0, 0] };
            check_access(&notification, |process| process == 7).map(|checked| checked.is_ok())
        };
        for (number, arguments, allowed) in [
            (libc::SYS_prlimit64, [0, 9, 1], true),
            (libc::SYS_prlimit64, [7, 9, 1], true),
            (libc::SYS_prlimit64, [8, 9, 1], false),
            (libc::SYS_prlimit64, [8, 9, 0], true),
            (libc::SYS_setpriority, [0, 0, 5], true),
            (libc::SYS_setpriority, [0, 7, 5], true),
            (libc::SYS_setpriority, [0, 8, 5], false),
            // A process group, and all processes of a user.
            (libc::SYS_setpriority, [1, 7, 5], false),
            (libc::SYS_setpriority, [2, 0, 5], false),
            (libc::SYS_ioprio_set, [1, 0, 5], true),
            (libc::SYS_ioprio_set, [3, 0, 5], false),
            (libc::SYS_sched_setaffinity, [0, 0, 0], true),
            (libc::SYS_sched_setaffinity, [8, 0, 0], false),
            (libc::SYS_sched_setscheduler, [1 << 32, 0, 0], true),
            (PROCESS_MRELEASE, [7, 0, 0], false),
        ] {
            assert_eq!(call(number, arguments), Some(allowed), "{number} {arguments:?}");
        }
        assert_eq!(call(libc::SYS_connect, [0, 0, 0]), None);
    }
}
