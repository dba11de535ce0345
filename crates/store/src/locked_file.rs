//! A locked file that is unlocked when its owner is dropped.

use std::fs::File;
use std::ops::{Deref, DerefMut};

/// A file that this process has locked. It is unlocked on drop.
#[derive(Debug)]
pub(crate) struct LockedFile(pub(crate) File);

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl DerefMut for LockedFile {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.0
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Unlock explicitly: a child process that is being started shares the open file, and with
        // it the lock, until it executes its program.
        let _ = self.0.unlock();
    }
}
