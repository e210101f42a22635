//! One moment of the whole system: what each database holds, who is at work, what is on its way, and how many faults
//! may still happen.

mod packet;
mod slot;
mod work;

pub use packet::{Answer, Fate, News, Packet};
pub use slot::{Charge, Compensation, Holding, PURPOSES, Purpose, Refund, Side, Slot};
pub use work::{Call, CallStep, Run, RunStep};

/// An order id that a claim has fixed, and everything that any service knows under it. Each order makes one attempt.
pub type Id = u8;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// Order's idempotency keys, one for each client.
    pub keys: Vec<Key>,
    pub slots: Vec<Slot>,
    /// Runs of order's loop.
    pub runs: Vec<Run>,
    /// Calls of payment to the provider.
    pub calls: Vec<Call>,
    /// What is on its way, sorted, each at most once: a packet that equals one under way joins it.
    pub net: Vec<Packet>,
    pub left: Budget,
    pub marks: Marks,
}

/// How many times each fault may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    /// A process dies: one run or one call is gone.
    pub crashes: u8,
    /// A packet or an answer is lost.
    pub losses: u8,
    /// A packet is delivered twice.
    pub duplicates: u8,
    /// Somebody stands still for longer than its lease.
    pub pauses: u8,
    /// Something is refused before it leaves, or nobody answers a question.
    pub refusals: u8,
    /// Users that want to cancel.
    pub cancels: u8,
}

/// What must never be seen, kept because no later state shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Marks {
    /// An ordinary message was refused for good.
    pub dead_letter: bool,
    /// A retry was told "out of stock" because of its own earlier order.
    pub met_own_hold: bool,
    /// An attempt was fenced while its charge stood in a ledger that could have been read.
    pub overlooked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    pub state: KeyState,
    /// Requests that its client may still send.
    pub requests: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyState {
    Free,
    Held { id: Id, attempt: u8 },
    Done(Id),
}

impl World {
    pub fn slot(&self, id: Id) -> &Slot {
        &self.slots[usize::from(id)]
    }

    pub fn slot_mut(&mut self, id: Id) -> &mut Slot {
        &mut self.slots[usize::from(id)]
    }

    pub fn send(&mut self, packet: Packet) {
        if let Err(at) = self.net.binary_search(&packet) {
            self.net.insert(at, packet);
        }
    }

    pub fn take(&mut self, packet: Packet) {
        if let Ok(at) = self.net.binary_search(&packet) {
            self.net.remove(at);
        }
    }

    pub fn is_under_way(&self, packet: Packet) -> bool {
        self.net.binary_search(&packet).is_ok()
    }

    pub fn enter(&mut self, run: Run) {
        let at = self.runs.binary_search(&run).unwrap_or_else(|at| at);
        self.runs.insert(at, run);
    }

    /// The run is over, and nobody waits for its answers any more.
    pub fn leave(&mut self, run: Run) {
        if let Ok(at) = self.runs.binary_search(&run) {
            self.runs.remove(at);
        }
        let Run { id: of, attempt, .. } = run;
        self.net.retain(|packet| match *packet {
            Packet::PayAnswer { id, caller, .. } => id != of || caller != attempt,
            Packet::FenceAnswer { id, caller: Some(caller), .. } => id != of || caller != attempt,
            _ => true,
        });
    }

    pub fn run_at(&self, id: Id, attempt: u8, step: RunStep) -> Option<Run> {
        let run = Run { id, attempt, step };
        self.runs.binary_search(&run).is_ok().then_some(run)
    }

    pub fn begin(&mut self, call: Call) {
        let at = self.calls.binary_search(&call).unwrap_or_else(|at| at);
        self.calls.insert(at, call);
    }

    pub fn end(&mut self, call: Call) {
        if let Ok(at) = self.calls.binary_search(&call) {
            self.calls.remove(at);
        }
    }
}
