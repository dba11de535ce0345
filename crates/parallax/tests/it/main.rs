//! Tests of the built program: scenario directories, and tests that scenarios cannot express.

#![cfg(unix)]
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what it expects, and what it leaves out"
)]

mod acp;
mod administrator;
mod agents;
mod agents_resumed;
mod background;
mod bash_stubs;
mod batch;
mod batch_changed_plan;
mod batch_kubernetes;
mod batch_uncommitted_work;
mod budget;
mod commands;
mod completions;
mod container;
mod context;
mod continuation;
mod conversation;
mod devtools;
mod disk;
mod doctor;
mod drop_in;
mod encryption;
mod evals;
mod export_page;
mod extension_upkeep;
mod extensions;
mod git_lines;
mod hidden_files;
mod hooks;
mod hooks_running;
mod ide;
mod key_agents;
mod keychain;
mod kill;
mod limits;
mod local_servers;
mod mcp;
mod mcp_real;
mod mcp_sandbox;
mod model_descriptions;
mod own_tools;
mod plan;
mod privacy;
mod protected_names;
mod protected_places;
mod provider_deviations;
mod provider_keys;
mod providers;
mod redaction;
mod remote_agents;
mod resuming;
mod review;
mod routing;
mod safety;
mod sandbox_notes;
mod scenarios;
mod serve;
mod serve_a2a;
mod sessions;
mod signals;
mod skills;
mod stats;
mod stdin;
mod support;
mod telemetry;
mod terminal;
mod trace_context;
mod trust;
mod turn_undo;
mod vertex;
mod worktree_agents;
mod worktree_attacks;
mod worktrees;
