//! Everything that the supervisor has started, and the only place that starts and stops it.
//!
//! The roster is written to disk at every change and before anything else happens, so that a supervisor that is
//! killed leaves no process that the next command would not know.

use std::{
    process::ExitStatus,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context, Result, bail};
use futures_util::future::join_all;
use rustix::process::Signal;
use tokio::sync::{Mutex as Turn, mpsc};

use crate::{
    layout::Layout,
    probe::until_ready,
    process::{Running, Spec, Stage, describe, spawn},
    state::{Phase, Recorded, State},
};

/// A process ended that nobody had asked to end.
pub struct Death {
    pub label: String,
    pub how: String,
}

pub struct Roster {
    layout: Layout,
    inner: Mutex<Inner>,
    deaths: mpsc::UnboundedSender<Death>,
    /// One restart at a time.
    turn: Turn<()>,
}

struct Inner {
    /// The state without its processes.
    state: State,
    slots: Vec<Slot>,
}

struct Slot {
    spec: Spec,
    running: Option<Running>,
    /// We are ending it ourselves.
    asked: bool,
    died: Option<String>,
}

impl Roster {
    /// The deaths that come out of the channel are at most one a start.
    pub fn new(layout: Layout, state: State) -> Result<(Arc<Self>, mpsc::UnboundedReceiver<Death>)> {
        let (deaths, reports) = mpsc::unbounded_channel();
        let inner = Mutex::new(Inner { state, slots: Vec::new() });
        let roster = Arc::new(Self { layout, inner, deaths, turn: Turn::new(()) });
        roster.save(&mut roster.inner())?;
        Ok((roster, reports))
    }

    pub fn set_phase(&self, phase: Phase) -> Result<()> {
        let mut inner = self.inner();
        inner.state.phase = phase;
        self.save(&mut inner)
    }

    /// Starts a process and waits until it is ready.
    pub async fn start(self: &Arc<Self>, spec: Spec) -> Result<()> {
        let running = self.launch(spec.clone())?;
        until_ready(&spec, &running).await
    }

    /// Stops what is known by the label, if it runs, and starts it again; `extra` settings are for that life alone.
    pub async fn restart(
        self: &Arc<Self>,
        label: &str,
        signal: Option<Signal>,
        extra: &[(String, String)],
    ) -> Result<()> {
        let _turn = self.turn.lock().await;
        let (spec, running) = self.ask_to_end(label)?;
        let spec = Spec { extra: extra.to_vec(), ..spec };
        if let Some(running) = running {
            running.stop(signal.unwrap_or(spec.stage.stop_signal()), spec.stage.patience()).await;
        }
        self.start(spec).await
    }

    /// Starts what has died, unless somebody was faster.
    pub async fn revive(self: &Arc<Self>, label: &str) -> Result<()> {
        let _turn = self.turn.lock().await;
        let spec = {
            let inner = self.inner();
            let slot = inner.slots.iter().find(|slot| slot.spec.label() == label);
            slot.filter(|slot| slot.running.is_none()).map(|slot| Spec { extra: Vec::new(), ..slot.spec.clone() })
        };
        match spec {
            Some(spec) => self.start(spec).await,
            None => Ok(()),
        }
    }

    /// Names of all processes that a target means.
    pub fn labels(&self, name: &str, replica: Option<u16>) -> Vec<String> {
        let inner = self.inner();
        let meant = |spec: &Spec| spec.name == name && replica.is_none_or(|k| spec.replica == k);
        inner.slots.iter().map(|slot| &slot.spec).filter(|spec| meant(spec)).map(Spec::label).collect()
    }

    pub fn all_labels(&self) -> Vec<String> {
        self.inner().slots.iter().map(|slot| slot.spec.label()).collect()
    }

    /// Stops everything, in the reverse of the order in which it rests on each other. Nothing starts after this.
    pub async fn stop_all(&self) {
        // A full disk must not keep processes alive.
        let _ = self.set_phase(Phase::Stopping);
        for stage in Stage::STOP_ORDER {
            let ending: Vec<Running> = {
                let mut inner = self.inner();
                let slots = inner.slots.iter_mut().filter(|slot| slot.spec.stage == stage);
                slots
                    .filter_map(|slot| {
                        slot.asked = true;
                        slot.running.clone()
                    })
                    .collect()
            };
            join_all(ending.iter().map(|running| running.stop(stage.stop_signal(), stage.patience()))).await;
        }
    }

    /// Without waiting for anything to finish.
    pub fn kill_all(&self) {
        for running in self.inner().slots.iter().filter_map(|slot| slot.running.as_ref()) {
            running.identity.signal(Signal::KILL);
        }
    }

    fn launch(self: &Arc<Self>, spec: Spec) -> Result<Running> {
        let mut inner = self.inner();
        if inner.state.phase == Phase::Stopping {
            bail!("the system is stopping");
        }
        let label = spec.label();
        let roster = Arc::downgrade(self);
        let running = spawn(&spec, move |status| {
            if let Some(roster) = roster.upgrade() {
                roster.ended(&label, status);
            }
        })?;
        let slot = Slot { spec, running: Some(running.clone()), asked: false, died: None };
        match inner.slots.iter_mut().find(|known| known.spec.label() == slot.spec.label()) {
            Some(known) => *known = slot,
            None => inner.slots.push(slot),
        }
        if let Err(e) = self.save(&mut inner) {
            // What is not on record must not run.
            running.identity.signal(Signal::KILL);
            return Err(e);
        }
        Ok(running)
    }

    fn ask_to_end(&self, label: &str) -> Result<(Spec, Option<Running>)> {
        let mut inner = self.inner();
        let slot =
            inner.slots.iter_mut().find(|slot| slot.spec.label() == label).with_context(|| format!("no {label}"))?;
        slot.asked = true;
        Ok((slot.spec.clone(), slot.running.clone()))
    }

    fn ended(&self, label: &str, status: ExitStatus) {
        let mut inner = self.inner();
        let Some(slot) = inner.slots.iter_mut().find(|slot| slot.spec.label() == label) else { return };
        // The call may come late, when the next life has begun.
        if slot.running.as_ref().is_none_or(|running| running.exit_status().is_none()) {
            return;
        }
        slot.running = None;
        if !slot.asked {
            let how = describe(status);
            slot.died = Some(how.clone());
            // Nobody listens only while the system stops.
            let _ = self.deaths.send(Death { label: label.to_owned(), how });
        }
        // Not on record as dead is harmless: its identity is not alive.
        let _ = self.save(&mut inner);
    }

    fn save(&self, inner: &mut Inner) -> Result<()> {
        let at = |port: u16| format!("127.0.0.1:{port}");
        inner.state.processes = inner
            .slots
            .iter()
            .map(|slot| Recorded {
                name: slot.spec.name.clone(),
                replica: slot.spec.replica,
                stage: slot.spec.stage,
                identity: slot.running.as_ref().map(|running| running.identity),
                died: slot.died.clone(),
                api: slot.spec.api.map(at),
                admin: slot.spec.admin.map(at),
            })
            .collect();
        inner.state.write(&self.layout)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
