//! Detects whether standard output was open when the program started. Unrelated to confinement; it
//! is here because it requires a few lines of unsafe code.

use std::sync::atomic::{AtomicBool, Ordering};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether the program was started with a closed standard output (`>&-`). The standard library then
/// opens `/dev/null` instead before `main`, so writes would not fail. Always `false` on platforms
/// where this cannot be determined.
pub fn stdout_was_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}

#[cfg(target_os = "linux")]
mod at_start {
    use std::sync::atomic::Ordering;

    #[used]
    #[expect(unsafe_code, reason = "it must run before the standard library opens /dev/null")]
    #[unsafe(link_section = ".init_array")]
    static LOOK: extern "C" fn() = record_closed;

    extern "C" fn record_closed() {
        // SAFETY: fcntl with F_GETFD only reads the flags of a descriptor.
        #[expect(unsafe_code, reason = "the safe wrappers want an open descriptor")]
        let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
        super::WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
    }
}
