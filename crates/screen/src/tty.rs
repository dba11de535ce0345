//! The terminal device: its two ends, raw mode, its size, and restoring it, even when the program
//! crashes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::termios::{
    OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr,
};

/// The size if nothing is known.
const DEFAULT_SIZE: (u16, u16) = (80, 24);
/// Sent by a crashing program: resets modes, shows the cursor, resets the style.
const EMERGENCY: &[u8] = b"\x1b[?2026l\x1b[?1006l\x1b[?1002l\x1b[?1004l\x1b[?2004l\x1b[?2031l\
\x1b[?7h\x1b[?25h\x1b[m\r\n";

/// The terminal device.
#[derive(Debug)]
pub(crate) struct Tty {
    input: OwnedFd,
    output: OwnedFd,
    original_modes: Termios,
}

impl Tty {
    /// Opens the terminal of standard input and output, or else the controlling terminal.
    pub fn open() -> io::Result<Self> {
        let input = terminal_of(rustix::stdio::stdin())?;
        let output = terminal_of(rustix::stdio::stdout())?;
        Self::from_descriptors(input, output)
    }

    /// Opens a terminal given by its two ends.
    pub fn from_descriptors(input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        let original_modes = tcgetattr(&input)?;
        Ok(Self { input, output, original_modes })
    }

    pub fn input(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    /// Enables raw mode: input arrives byte by byte, and output is not changed. Input typed before
    /// is kept. Returns how many bytes were typed before; in those, the terminal has translated
    /// each Enter to a line feed.
    pub fn enable_raw_mode(&self) -> io::Result<usize> {
        let mut raw = self.original_modes.clone();
        raw.make_raw();
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        let mut saved = lock(&SAVED);
        *saved = Some(SavedTerminal {
            input: rustix::io::fcntl_dupfd_cloexec(&self.input, 3)?,
            output: rustix::io::fcntl_dupfd_cloexec(&self.output, 3)?,
            original_modes: self.original_modes.clone(),
            bytes: Vec::new(),
        });
        drop(saved);
        tcsetattr(&self.input, OptionalActions::Now, &raw)?;
        let early = rustix::io::ioctl_fionread(&self.input).unwrap_or(0);
        Ok(usize::try_from(early).unwrap_or(0))
    }

    /// Restores the original mode.
    pub fn restore_mode(&self) -> io::Result<()> {
        tcsetattr(&self.input, OptionalActions::Drain, &self.original_modes)?;
        *lock(&SAVED) = None;
        Ok(())
    }

    /// Returns columns and rows.
    pub fn size(&self) -> (u16, u16) {
        match tcgetwinsize(&self.output) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col, size.ws_row),
            _ => DEFAULT_SIZE,
        }
    }

    /// Returns the width and height of a cell in pixels if the device knows.
    pub fn cell(&self) -> Option<(u16, u16)> {
        let size = tcgetwinsize(&self.output).ok()?;
        let width = size.ws_xpixel.checked_div(size.ws_col)?;
        let height = size.ws_ypixel.checked_div(size.ws_row)?;
        (width > 0 && height > 0).then_some((width, height))
    }

    /// Writes all bytes, with one call if the terminal accepts them.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        write_all(self.output.as_fd(), bytes)
    }
}

fn terminal_of(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    if isatty(fd) {
        return Ok(rustix::io::fcntl_dupfd_cloexec(fd, 3)?);
    }
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open("/dev/tty", flags, Mode::empty())?)
}

fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            // Another process may have made the shared description non-blocking.
            Err(Errno::AGAIN) => {
                poll(&mut [PollFd::new(&fd, PollFlags::OUT)], None)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

struct SavedTerminal {
    input: OwnedFd,
    output: OwnedFd,
    original_modes: Termios,
    /// Sequences for modes that only this session enabled.
    bytes: Vec<u8>,
}

static SAVED: Mutex<Option<SavedTerminal>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Adds to the bytes sent by [`emergency_restore`].
pub(crate) fn add_restore_bytes(bytes: &[u8]) {
    if let Some(saved) = lock(&SAVED).as_mut() {
        saved.bytes.extend_from_slice(bytes);
    }
}

/// Removes what [`add_restore_bytes`] added.
pub(crate) fn remove_restore_bytes(bytes: &[u8]) {
    if let Some(saved) = lock(&SAVED).as_mut()
        && let Some(index) = saved.bytes.windows(bytes.len()).rposition(|part| part == bytes)
    {
        saved.bytes.drain(index..index + bytes.len());
    }
}

/// Restores the terminal if it is in raw mode. For a panic hook or a signal exit: it only writes
/// prepared bytes and sets the saved modes, waits for no lock, and does nothing the second time.
pub fn emergency_restore() {
    let Ok(mut saved) = SAVED.try_lock() else { return };
    let Some(saved) = saved.take() else { return };
    let _ = write_all(saved.output.as_fd(), &saved.bytes);
    let _ = write_all(saved.output.as_fd(), EMERGENCY);
    let _ = tcsetattr(&saved.input, OptionalActions::Now, &saved.original_modes);
}

/// Installs a panic hook that restores the terminal before the message is printed.
pub fn restore_on_panic() {
    let previous_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        emergency_restore();
        previous_hook(panic);
    }));
}
