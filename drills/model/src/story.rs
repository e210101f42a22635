//! A path through the states, for people.

use stateright::Path;

use crate::{
    action::Action,
    world::{Slot, World},
};

/// One line a step: what happened, and what each order and its attempt are then.
#[must_use]
pub fn tell(path: Path<World, Action>) -> String {
    let mut story = String::new();
    let steps = path.into_vec();
    for (number, pair) in steps.windows(2).enumerate() {
        let (Some(action), after) = (&pair[0].1, &pair[1].0) else { continue };
        let action = format!("{action:?}");
        story.push_str(&format!("{:>3}. {action:<90} {}\n", number + 1, orders(after)));
    }
    if let Some((last, _)) = steps.last() {
        story.push_str(&format!("     on its way: {:?}\n", last.net));
        for slot in &last.slots {
            story.push_str(&format!(
                "     stock {:?}, coupon {:?}, charges {:?}, refunds {:?}, extra {:?}\n",
                slot.stock, slot.coupon, slot.charges, slot.refunds, slot.extra
            ));
        }
    }
    story
}

fn orders(w: &World) -> String {
    let told: Vec<_> = w.slots.iter().map(order).collect();
    told.join(" | ")
}

fn order(slot: &Slot) -> String {
    let order = slot.order.map_or("–", |order| order.status.as_str());
    let attempt = slot.attempt.map_or("–", |attempt| attempt.state.as_str());
    format!("{order}/{attempt}")
}
