//! Tests of the policy through its public API.

#[cfg(test)]
mod bash_lines;
#[cfg(test)]
mod decisions;
#[cfg(test)]
mod files;
#[cfg(test)]
mod guards;
#[cfg(test)]
mod hidden;
#[cfg(test)]
mod property;
#[cfg(test)]
mod suggested_rules;
#[cfg(test)]
mod table;
#[cfg(test)]
mod world;
