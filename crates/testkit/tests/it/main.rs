//! Tests of the model server over real sockets and of scenarios with real processes.

#[cfg(test)]
mod scenario;
#[cfg(test)]
mod server;
