//! The model server over real sockets, scenarios with real processes.

#[cfg(test)]
mod scenario;
#[cfg(test)]
mod server;
