//! Capabilities. Ordinary users keep none; root keeps those that make files of other users
//! accessible, which an installation or a build in a container requires.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
    set_capabilities,
};

use crate::inside::failure::{FailureContextExt as _, SandboxResult};

/// Does not include `CHOWN` and `FSETID`: with them, a command could create or change a file that
/// runs with the privileges of another user or group.
const OF_ROOT: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID);

/// Drops all capabilities except those of root for files and its own processes. Drops these as well
/// if `keep` is false or the user is not root.
pub(crate) fn drop_all_but_files(keep: bool) -> SandboxResult<()> {
    let root = rustix::process::geteuid().is_root();
    let retained = if keep && root { OF_ROOT } else { CapabilitySet::empty() };
    let current = capabilities(None).unsupported("capabilities")?;
    for number in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if retained.contains(one) {
            continue;
        }
        match remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // The previous capability was the last one that this kernel knows.
            Err(Errno::INVAL) => break,
            // A process that is not permitted to drop capabilities cannot regain any either,
            // because `no_new_privs` applies to every program it starts.
            Err(_) => break,
        }
    }
    let sets = CapabilitySets {
        effective: current.effective & retained,
        permitted: current.permitted & retained,
        inheritable: CapabilitySet::empty(),
    };
    let _ = rustix::thread::clear_ambient_capability_set();
    set_capabilities(None, sets).unsupported("capabilities")
}
