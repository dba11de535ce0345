//! Capabilities: none for ordinary users; for root those that make files of
//! other users usable, as an installation or a build in a container needs.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
    set_capabilities,
};

use crate::inside::failure::{Explain as _, Outcome};

/// Not `CHOWN` and `FSETID`: with them a file that runs with the rights of another user
/// or group could be made, or changed and stay one.
const OF_ROOT: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID);

/// Drops everything but root's power over files and own processes; that too
/// when `keep` is false or the user is not root.
pub(crate) fn drop_all_but_files(keep: bool) -> Outcome<()> {
    let root = rustix::process::geteuid().is_root();
    let kept = if keep && root { OF_ROOT } else { CapabilitySet::empty() };
    let now = capabilities(None).unsupported("capabilities")?;
    for number in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if kept.contains(one) {
            continue;
        }
        match remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // The last capability this kernel knows was the one before.
            Err(Errno::INVAL) => break,
            // Without the right to drop there is nothing that could be regained:
            // no new privileges come from any program that is started.
            Err(_) => break,
        }
    }
    let sets = CapabilitySets {
        effective: now.effective & kept,
        permitted: now.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    let _ = rustix::thread::clear_ambient_capability_set();
    set_capabilities(None, sets).unsupported("capabilities")
}
