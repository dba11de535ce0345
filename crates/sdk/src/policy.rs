//! The policy outside of a session, for lists and checks.

use parallax_agents::rules;
use parallax_agents::skills::built_in_names;
use parallax_policy::Policy;
use parallax_policy_sources::{ImplicitAllows, RuleRow, rule_rows};
use parallax_protocol::policy::ApprovalMode;

use crate::session_config::SessionConfig;
use crate::{mcp, plans};

/// Returns the policy, with warnings about its files. Blocking.
pub fn policy(launch: &SessionConfig) -> (Policy, Vec<String>) {
    let agents = launch.agent_library().agents();
    let (trusted_servers, allowed_servers) = mcp::implicitly_allowed_servers(launch);
    launch.policy_sources().policy(ImplicitAllows {
        // Only an open session knows its default directory for plans.
        plans: plans::configured_directory(launch).ok().flatten(),
        skills: built_in_names(&launch.skill_library().skills()),
        trusted_servers,
        allowed_servers,
        agent_servers: parallax_agents::trusted_servers(&agents),
        agent_rules: rules(&agents),
    })
}

/// Returns the policy rules by mode, for lists ([`rule_rows`](crate::rule_rows)). Blocking.
pub fn policy_rules(launch: &SessionConfig) -> Vec<(Option<ApprovalMode>, Vec<RuleRow>)> {
    rule_rows(&policy(launch).0)
}
