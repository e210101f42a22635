//! A model check of how orders are paid: the `decide` functions of order and payment, as they are, in a small world in
//! which everything that can happen does happen, in every order.
//!
//! Problem: a protocol between processes that crash, over a network that loses, doubles, delays and reorders, has more
//! histories than any test writes down. The ones that lose money are short, and nobody thinks of them.
//!
//! Rule: the world is finite (so many requests, so many faults), every reachable state is looked at, and what must
//! hold is said twice: in every state, and of every state in which nothing is left to do. A safeguard that can be taken
//! out without a counterexample is either not needed or not modelled.
//!
//! Reading order: [`world`] (one moment of the system) · [`setting`] (what it starts with) · [`action`] and `misfortune`
//! (what can happen) · [`step`] (what that does) · [`orders`] and [`attempts`] (where the services' own functions are
//! asked) · [`claims`] (what must hold) · [`worlds`] · [`safeguards`] (what is left out to see that it is missed) ·
//! [`story`] (a counterexample, told).

pub mod action;
pub mod attempts;
pub mod claims;
mod misfortune;
pub mod orders;
mod rows;
pub mod safeguards;
pub mod setting;
pub mod step;
pub mod story;
pub mod world;
pub mod worlds;

use contracts::order::OrderStatus;

use crate::{
    action::Action,
    safeguards::Safeguard,
    setting::Setting,
    world::{Key, KeyState, Marks, World},
};

/// A world to be explored, perhaps without some of its safeguards.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    pub setting: Setting,
    pub without: &'static [Safeguard],
}

impl Model {
    #[must_use]
    pub const fn whole(setting: Setting) -> Self {
        Self { setting, without: &[] }
    }

    #[must_use]
    pub fn lacks(&self, safeguard: Safeguard) -> bool {
        self.without.contains(&safeguard)
    }

    /// Whether nothing happens any more unless somebody asks for it or something breaks. Reminders are for what was
    /// lost: as long as nothing was, the system has to come to rest without them. (One that is repeated in vain for ever
    /// would also hide that nothing else goes on.)
    #[must_use]
    pub fn is_quiet(&self, w: &World) -> bool {
        if !w.runs.is_empty() || !w.calls.is_empty() {
            return false;
        }
        let lossless = w.left.losses == self.setting.budget.losses;
        let mut actions = Vec::new();
        self.progress(w, &mut actions);
        actions.into_iter().all(|action| (lossless && action.is_reminder()) || self.after(w, action).is_none())
    }

    fn after(&self, w: &World, action: Action) -> Option<World> {
        let mut next = w.clone();
        self.step(&mut next, action);
        (next != *w).then_some(next)
    }
}

impl stateright::Model for Model {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let key = Key { state: KeyState::Free, requests: self.setting.requests };
        vec![World {
            keys: vec![key; usize::from(self.setting.keys)],
            slots: Vec::new(),
            runs: Vec::new(),
            calls: Vec::new(),
            net: Vec::new(),
            left: self.setting.budget,
            marks: Marks::default(),
        }]
    }

    fn actions(&self, state: &World, actions: &mut Vec<Action>) {
        self.progress(state, actions);
        self.disturbances(state, actions);
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        self.after(last, action)
    }

    fn properties(&self) -> Vec<stateright::Property<Self>> {
        claims::all()
    }
}

fn is_dead(status: OrderStatus) -> bool {
    matches!(status, OrderStatus::Rejected | OrderStatus::Cancelled)
}
