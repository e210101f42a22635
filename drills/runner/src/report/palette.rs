//! Colours by role, for light and for dark.
//!
//! A picture is drawn in the light colours, each of which stands for one role alone. So the style sheet knows roles by
//! their colours and can say what they are in the dark, and a picture that is taken out of the page still looks right.

use std::fmt::Write;

use plotters::style::RGBColor;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Ink,
    Grid,
    Fault,
    Blue,
    Orange,
    Teal,
    Purple,
    Amber,
    Brown,
    Green,
    Grey,
    Red,
}

/// For curves without a meaning of their own, told apart also by those who do not see red and green.
pub const CURVES: [Role; 8] =
    [Role::Blue, Role::Orange, Role::Teal, Role::Purple, Role::Amber, Role::Brown, Role::Green, Role::Grey];

impl Role {
    pub const ALL: [Self; 12] = [
        Self::Ink,
        Self::Grid,
        Self::Fault,
        Self::Blue,
        Self::Orange,
        Self::Teal,
        Self::Purple,
        Self::Amber,
        Self::Brown,
        Self::Green,
        Self::Grey,
        Self::Red,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ink => "ink",
            Self::Grid => "grid",
            Self::Fault => "fault",
            Self::Blue => "blue",
            Self::Orange => "orange",
            Self::Teal => "teal",
            Self::Purple => "purple",
            Self::Amber => "amber",
            Self::Brown => "brown",
            Self::Green => "green",
            Self::Grey => "grey",
            Self::Red => "red",
        }
    }

    /// On a light ground, and on a dark one.
    const fn shades(self) -> [u32; 2] {
        match self {
            Self::Ink => [0x1F_24_30, 0xE6_E8_EE],
            Self::Grid => [0xD5_D9_E0, 0x3A_40_4C],
            Self::Fault => [0xE2_50_22, 0xFF_8A_5C],
            Self::Blue => [0x00_6F_AF, 0x5C_B8_F0],
            Self::Orange => [0xC9_5A_00, 0xFF_9B_45],
            Self::Teal => [0x0F_7C_85, 0x4F_D3_DD],
            Self::Purple => [0x98_3F_80, 0xE5_92_CD],
            Self::Amber => [0xB0_83_00, 0xF2_C5_3D],
            Self::Brown => [0x7A_4B_1F, 0xD3_A2_6F],
            Self::Green => [0x1B_82_4A, 0x55_D1_8A],
            Self::Grey => [0x6A_72_80, 0x9A_A3_B2],
            Self::Red => [0xBE_2A_2A, 0xFF_6F_6B],
        }
    }

    #[must_use]
    pub const fn colour(self) -> RGBColor {
        let [_, r, g, b] = self.shades()[0].to_be_bytes();
        RGBColor(r, g, b)
    }
}

/// The rules that give every role its colour, on the page and in the pictures.
#[must_use]
pub fn style_sheet() -> String {
    let mut css = String::new();
    let mut say = |line: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(css, "{line}");
    };
    let variables = |shade: usize| -> String {
        Role::ALL.map(|role| format!("--{}:#{:06X};", role.name(), role.shades()[shade])).concat()
    };
    say(format!(":root{{{}--ground:#FFFFFF;--panel:#F5F6F8}}", variables(0)));
    let dark = variables(1);
    say(format!("@media (prefers-color-scheme:dark){{:root{{{dark}--ground:#14171D;--panel:#1D222B}}}}"));
    for role in Role::ALL {
        let (name, light) = (role.name(), role.shades()[0]);
        say(format!("[fill=\"#{light:06X}\"]{{fill:var(--{name})}}[stroke=\"#{light:06X}\"]{{stroke:var(--{name})}}"));
        say(format!(".{name}{{background:var(--{name})}}"));
    }
    css
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_colour_stands_for_one_role_alone_else_the_dark_could_not_tell_them_apart() {
        let light: BTreeSet<u32> = Role::ALL.iter().map(|role| role.shades()[0]).collect();
        assert_eq!(light.len(), Role::ALL.len());
    }

    #[test]
    fn every_role_has_a_colour_in_the_light_and_another_in_the_dark() {
        let css = style_sheet();
        let (light, dark) = css.split_once("@media (prefers-color-scheme:dark)").unwrap();
        for role in Role::ALL {
            let [day, night] = role.shades();
            assert_ne!(day, night, "{role:?}");
            assert!(light.contains(&format!("--{}:#{day:06X};", role.name())), "{role:?}");
            assert!(dark.contains(&format!("--{}:#{night:06X};", role.name())), "{role:?}");
            assert!(dark.contains(&format!("[stroke=\"#{day:06X}\"]")), "{role:?}");
        }
    }
}
