//! Seccomp filters: reject system calls that ordinary commands do not need and that could escape
//! the sandbox.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, sock_filter,
};

use crate::inside::failure::{FailureContextExt as _, SandboxResult};
use crate::plan::{Network, Plan};

/// Calls that are rejected regardless of their arguments: debugging other processes, mounts,
/// namespaces, kernel administration, keys, and the clock.
const REFUSED: [libc::c_long; 49] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_kexec_load,
    KEXEC_FILE_LOAD,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    libc::SYS_acct,
    libc::SYS_quotactl,
    QUOTACTL_FD,
    OPEN_TREE_ATTR,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_syslog,
];

// These newer calls have the same number on every architecture.
const QUOTACTL_FD: libc::c_long = 443;
const FCHMODAT2: libc::c_long = 452;
const OPEN_TREE_ATTR: libc::c_long = 467;
#[cfg(target_arch = "x86_64")]
const KEXEC_FILE_LOAD: libc::c_long = 320;
#[cfg(not(target_arch = "x86_64"))]
const KEXEC_FILE_LOAD: libc::c_long = 294;

/// Flags of `clone` and `unshare` that create a namespace.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Accepted only by `unshare`; for `clone` these bits have another meaning.
const NEW_TIME: u64 = 0x80;

/// Which sockets a command may create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sockets {
    /// All sockets; mounts and the network namespace restrict what they reach.
    Namespace,
    /// Internet sockets only, because no namespace hides the socket of a container daemon.
    Internet,
    /// Internet and unix sockets, because the plan allows specific sockets.
    InternetAndUnix,
    /// Unix sockets only.
    Unix,
    /// None; pairs of connected stream sockets are always allowed.
    None,
}

impl Sockets {
    /// Returns the restriction that replaces the network namespace if there is none. Unix sockets
    /// need a broker that checks their addresses: no other mechanism tells one from another.
    pub(crate) fn without_namespace(plan: &Plan, checks_addresses: bool) -> Self {
        let unix = checks_addresses && !plan.sockets.is_empty();
        match (plan.network == Network::Isolated, unix) {
            (false, false) => Self::Internet,
            (false, true) => Self::InternetAndUnix,
            (true, true) => Self::Unix,
            (true, false) => Self::None,
        }
    }

    fn families(self) -> Vec<i32> {
        let mut families = vec![libc::AF_NETLINK];
        if matches!(self, Self::Namespace | Self::InternetAndUnix | Self::Unix) {
            families.push(libc::AF_UNIX);
        }
        if matches!(self, Self::Namespace | Self::InternetAndUnix | Self::Internet) {
            families.extend([libc::AF_INET, libc::AF_INET6]);
        }
        families
    }
}

/// The parameters of the filters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filters {
    /// Which sockets may be created.
    pub(crate) sockets: Sockets,
    /// Whether a network broker checks addresses, so that ways around it must be blocked.
    pub(crate) has_broker: bool,
    /// Whether the broker sets the set-group-ID bit of directories; without it, the bit cannot be
    /// set.
    pub(crate) group_bit_told: bool,
    /// Who may change limits and priorities of processes.
    pub(crate) neighbors: ProcessVisibility,
}

/// How a command can interact with other processes of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessVisibility {
    /// Process and IPC namespaces hide them.
    Hidden,
    /// They are visible, and the network broker distinguishes processes of the session from others.
    Gated,
    /// They are visible, and nothing distinguishes them.
    Visible,
}

/// Installs the filters on this process and everything it starts. `no_new_privs` must be set.
pub(crate) fn filter(filters: Filters) -> SandboxResult<()> {
    // In reverse order, because each filter must still allow installing the next.
    for program in
        [blocked_calls(filters)?, uninspectable_call_filter()?, alternative_number_filter()]
    {
        if !program.is_empty() {
            apply_filter(&program).unsupported("seccomp")?;
        }
    }
    Ok(())
}

fn blocked_calls(filters: Filters) -> SandboxResult<BpfProgram> {
    let Filters { sockets, has_broker, group_bit_told, neighbors } = filters;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    #[cfg(target_arch = "x86_64")]
    rules.extend([(libc::SYS_iopl, Vec::new()), (libc::SYS_ioperm, Vec::new())]);

    let bit = |flag: u64| rule(vec![(0, SeccompCmpOp::MaskedEq(flag), flag)]);
    let mut flags = Vec::new();
    for flag in NAMESPACES {
        flags.push(bit(u64::from(flag.cast_unsigned()))?);
    }
    rules.insert(libc::SYS_clone, flags.clone());
    flags.push(bit(NEW_TIME)?);
    rules.insert(libc::SYS_unshare, flags);

    rules.extend(special_files(group_bit_told)?);
    // Injecting input into the terminal of the user.
    let types = |request: u64| rule(vec![(1, SeccompCmpOp::Eq, request)]);
    let mut requests = vec![types(0x5412)?, types(0x541C)?];
    requests.extend(file_system_requests()?);
    rules.insert(libc::SYS_ioctl, requests);
    // A lease keeps other processes, including the guard of protected files, from opening a file.
    let lease = (1, SeccompCmpOp::Eq, u64::from(libc::F_SETLEASE.cast_unsigned()));
    rules.insert(libc::SYS_fcntl, vec![rule(vec![lease])?]);
    if neighbors != ProcessVisibility::Hidden {
        rules.extend(SHARED_IPC.iter().map(|call| (*call, Vec::new())));
    }
    if neighbors == ProcessVisibility::Visible {
        rules.extend(process_call_rules()?);
    }

    let other = sockets
        .families()
        .into_iter()
        .map(|family| (0, SeccompCmpOp::Ne, u64::from(family.cast_unsigned())))
        .collect();
    // Netlink only for routes, interfaces, and addresses.
    let netlink = vec![
        (0, SeccompCmpOp::Eq, u64::from(libc::AF_NETLINK.cast_unsigned())),
        (2, SeccompCmpOp::Ne, 0),
    ];
    let mut blocked = vec![rule(other)?, rule(netlink)?];
    if has_broker {
        blocked.extend(unusual_protocols()?);
        rules.insert(libc::SYS_setsockopt, source_routing_options()?);
    }
    rules.insert(libc::SYS_socket, blocked);
    if sockets != Sockets::Namespace {
        rules.insert(libc::SYS_socketpair, reconnectable_socket_pairs()?);
    }
    compile(rules, libc::EPERM)
}

/// Returns rules for pairs of unix sockets that can be reconnected to any socket with a path:
/// datagram sockets, which include raw ones.
fn reconnectable_socket_pairs() -> SandboxResult<Vec<SeccompRule>> {
    const KIND: u64 = 0xf;
    [libc::SOCK_DGRAM, libc::SOCK_RAW]
        .into_iter()
        .map(|kind| {
            let kind = u64::from(kind.cast_unsigned());
            let family = u64::from(libc::AF_UNIX.cast_unsigned());
            rule(vec![(0, SeccompCmpOp::Eq, family), (1, SeccompCmpOp::MaskedEq(KIND), kind)])
        })
        .collect()
}

/// System V and POSIX IPC objects, which have no path that Landlock could restrict.
const SHARED_IPC: [libc::c_long; 13] = [
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Returns rules for calls that change the limits, priority, or memory of the process named by an
/// argument, unless that is the caller (0).
fn process_call_rules() -> SandboxResult<Vec<(i64, Vec<SeccompRule>)>> {
    let names_one = |argument| (argument, SeccompCmpOp::Ne, 0);
    let mut rules = Vec::new();
    for call in crate::inside::network_broker::CALLS_BY_PROCESS {
        rules.push((call, vec![rule(vec![names_one(0)])?]));
    }
    // Without new limits (a pointer), the call only reads.
    let new = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0);
    let named = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0);
    let sets_limits = new
        .and_then(|new| named.map(|named| vec![named, new]))
        .and_then(SeccompRule::new)
        .unsupported("seccomp")?;
    rules.push((libc::SYS_prlimit64, vec![sets_limits]));
    // The first argument selects a process, a group, or all processes of a user.
    for (call, process) in [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)] {
        let several = (0, SeccompCmpOp::Ne, process);
        rules.push((call, vec![rule(vec![names_one(1)])?, rule(vec![several])?]));
    }
    Ok(rules)
}

/// Returns rules for requests that change a file or a whole file system through a descriptor opened
/// for reading. The requests depend on the file system, so whole kinds are rejected except for
/// requests that only read or require a descriptor opened for writing.
fn file_system_requests() -> SandboxResult<Vec<SeccompRule>> {
    /// The second byte of a request is its kind.
    const KIND: u64 = 0xff00;
    const GET_FLAGS: u64 = 0x8008_6601;
    const GET_FLAGS_32: u64 = 0x8004_6601;
    const FIEMAP: u64 = 0xc020_660b;
    const GET_VERSION: u64 = 0x8008_7601;
    const GET_VERSION_32: u64 = 0x8004_7601;
    const GET_EXTENDED_FLAGS: u64 = 0x801c_581f;
    const GET_LABEL: u64 = 0x8100_9431;
    const CLONE: u64 = 0x4004_9409;
    const CLONE_RANGE: u64 = 0x4020_940d;
    const FAT_GET_ATTRIBUTES: u64 = 0x8004_7210;
    // Flags and encryption; versions; XFS, freezing, trimming; Btrfs; F2FS; FAT.
    let kinds: [(u64, &[u64]); 6] = [
        (0x6600, &[GET_FLAGS, GET_FLAGS_32, FIEMAP]),
        (0x7600, &[GET_VERSION, GET_VERSION_32]),
        (0x5800, &[GET_EXTENDED_FLAGS]),
        (0x9400, &[CLONE, CLONE_RANGE, GET_LABEL]),
        (0xf500, &[]),
        (0x7200, &[FAT_GET_ATTRIBUTES]),
    ];
    kinds
        .into_iter()
        .map(|(kind, harmless)| {
            let kind_condition = (1, SeccompCmpOp::MaskedEq(KIND), kind);
            let others = harmless.iter().map(|request| (1, SeccompCmpOp::Ne, *request));
            rule([kind_condition].into_iter().chain(others).collect())
        })
        .collect()
}

/// Returns rules for calls that create devices or make a program run as its owner or with its
/// group, no matter who starts it. Rejecting device creation also prevents copying the overmount of
/// a hidden file. `group_bit_told`: the broker checks the set-group-ID bit of existing files.
fn special_files(group_bit_told: bool) -> SandboxResult<Vec<(i64, Vec<SeccompRule>)>> {
    const SET_USER: u64 = 0o4000;
    const SET_GROUP: u64 = 0o2000;
    let has = |argument, bit| (argument, SeccompCmpOp::MaskedEq(bit), bit);
    // Without these flags, the mode argument is an arbitrary value.
    let makes = |argument, flag: i32| {
        let flag = u64::from(flag.cast_unsigned());
        (argument, SeccompCmpOp::MaskedEq(flag), flag)
    };
    let changes = |argument| -> SandboxResult<Vec<SeccompRule>> {
        let mut blocked = vec![rule(vec![has(argument, SET_USER)])?];
        if !group_bit_told {
            blocked.push(rule(vec![has(argument, SET_GROUP)])?);
        }
        Ok(blocked)
    };
    let makes_file = |argument| -> SandboxResult<Vec<SeccompRule>> {
        Ok(vec![rule(vec![has(argument, SET_USER)])?, rule(vec![has(argument, SET_GROUP)])?])
    };
    let makes_node = |argument| -> SandboxResult<Vec<SeccompRule>> {
        let kinds = SeccompCmpOp::MaskedEq(u64::from(libc::S_IFMT));
        let is = |kind: u32| (argument, kinds.clone(), u64::from(kind));
        let mut blocked = makes_file(argument)?;
        blocked.extend([rule(vec![is(libc::S_IFCHR)])?, rule(vec![is(libc::S_IFBLK)])?]);
        Ok(blocked)
    };
    const NAMELESS: i32 = libc::O_TMPFILE & !libc::O_DIRECTORY;
    let opens = |flags, access_mode| -> SandboxResult<Vec<SeccompRule>> {
        let mut blocked = Vec::new();
        for flag in [libc::O_CREAT, NAMELESS] {
            for bit in [SET_USER, SET_GROUP] {
                blocked.push(rule(vec![makes(flags, flag), has(access_mode, bit)])?);
            }
        }
        Ok(blocked)
    };
    let mut rules = vec![
        (libc::SYS_fchmod, changes(1)?),
        (libc::SYS_fchmodat, changes(2)?),
        (FCHMODAT2, changes(2)?),
        (libc::SYS_mknodat, makes_node(2)?),
        (libc::SYS_openat, opens(2, 3)?),
    ];
    #[cfg(target_arch = "x86_64")]
    rules.extend([
        (libc::SYS_chmod, changes(1)?),
        (libc::SYS_creat, makes_file(1)?),
        (libc::SYS_mknod, makes_node(1)?),
        (libc::SYS_open, opens(1, 2)?),
    ]);
    Ok(rules)
}

/// Returns rules for internet sockets whose protocol takes addresses in calls other than `connect`
/// and `sendmsg` (SCTP, in options).
fn unusual_protocols() -> SandboxResult<Vec<SeccompRule>> {
    let usual = [
        0,
        libc::IPPROTO_TCP,
        libc::IPPROTO_UDP,
        libc::IPPROTO_UDPLITE,
        libc::IPPROTO_ICMP,
        libc::IPPROTO_ICMPV6,
        libc::IPPROTO_MPTCP,
    ];
    let of = |family: i32| {
        let family = (0, SeccompCmpOp::Eq, u64::from(family.cast_unsigned()));
        let others =
            usual.map(|protocol| (2, SeccompCmpOp::Ne, u64::from(protocol.cast_unsigned())));
        rule([family].into_iter().chain(others).collect())
    };
    Ok(vec![of(libc::AF_INET)?, of(libc::AF_INET6)?])
}

/// Returns rules for options that route packets through an address other than their destination.
fn source_routing_options() -> SandboxResult<Vec<SeccompRule>> {
    const OLD_OPTIONS: i32 = 6;
    const OLD_ROUTE: i32 = 5;
    [
        (libc::IPPROTO_IP, libc::IP_OPTIONS),
        (libc::IPPROTO_IPV6, libc::IPV6_RTHDR),
        (libc::IPPROTO_IPV6, OLD_OPTIONS),
        (libc::IPPROTO_IPV6, OLD_ROUTE),
    ]
    .into_iter()
    .map(|(level, option)| {
        let is =
            |argument, value: i32| (argument, SeccompCmpOp::Eq, u64::from(value.cast_unsigned()));
        rule(vec![is(1, level), is(2, option)])
    })
    .collect()
}

/// Returns a filter for calls whose flags no filter can inspect. They fail as on an old kernel, so
/// programs use the older calls.
fn uninspectable_call_filter() -> SandboxResult<BpfProgram> {
    // `openat2` could create a file with a set-ID bit.
    let calls = [libc::SYS_clone3, libc::SYS_openat2].map(|call| (call, Vec::new()));
    compile(calls.into(), libc::ENOSYS)
}

/// Returns a filter for the alternative call numbers that some kernels of this architecture
/// support.
fn alternative_number_filter() -> BpfProgram {
    #[cfg(not(target_arch = "x86_64"))]
    return Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        const FIRST: u32 = 0x4000_0000;
        const LOAD_NUMBER: u16 = 0x20;
        const JUMP_IF_AT_LEAST: u16 = 0x35;
        const RETURN: u16 = 0x06;
        let block_action = u32::from(SeccompAction::Errno(libc::EPERM.cast_unsigned()));
        let allowed = u32::from(SeccompAction::Allow);
        vec![
            sock_filter { code: LOAD_NUMBER, jt: 0, jf: 0, k: 0 },
            sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: FIRST },
            sock_filter { code: RETURN, jt: 0, jf: 0, k: block_action },
            sock_filter { code: RETURN, jt: 0, jf: 0, k: allowed },
        ]
    }
}

/// Returns a rule that matches if all conditions hold. Arguments that are `int` in the kernel are
/// compared as such, ignoring the upper bits.
fn rule(conditions: Vec<(u8, SeccompCmpOp, u64)>) -> SandboxResult<SeccompRule> {
    let conditions: Result<Vec<_>, _> = conditions
        .into_iter()
        .map(|(argument, operator, value)| {
            SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
        })
        .collect();
    conditions.and_then(SeccompRule::new).unsupported("seccomp")
}

fn compile(rules: BTreeMap<i64, Vec<SeccompRule>>, error: i32) -> SandboxResult<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).unsupported("seccomp")?;
    let action = SeccompAction::Errno(error.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch);
    filter.and_then(BpfProgram::try_from).unsupported("seccomp")
}
