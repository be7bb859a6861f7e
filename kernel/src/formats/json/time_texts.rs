//! Dates and timestamps as texts, in the default formats of Spark's `to_json`.

use super::times::{MICROS_PER_SECOND, SECONDS_PER_DAY, Zone, civil_from_days};

const MICROS_PER_DAY: i64 = SECONDS_PER_DAY * MICROS_PER_SECOND;

/// Writes instants as the time of a zone.
pub struct Clock {
    zone: Zone,
}

impl Clock {
    pub fn new(zone: Zone) -> Self {
        Clock { zone }
    }

    /// `uuuu-MM-dd'T'HH:mm:ss.SSSXXXXX`
    pub fn write(&self, micros: i64, to: &mut Vec<u8>) {
        let offset = self.zone.offset_at(micros.div_euclid(MICROS_PER_SECOND));
        let (days, micros) = (micros.div_euclid(MICROS_PER_DAY), micros.rem_euclid(MICROS_PER_DAY));
        let micros = micros + offset * MICROS_PER_SECOND;
        day_and_time(days + micros.div_euclid(MICROS_PER_DAY), micros.rem_euclid(MICROS_PER_DAY), to);
        if offset == 0 {
            return to.push(b'Z');
        }
        to.push(if offset < 0 { b'-' } else { b'+' });
        let seconds = offset.unsigned_abs() as u32;
        two(seconds / 3600, to);
        to.push(b':');
        two(seconds / 60 % 60, to);
        // Most zones had such offsets before 1900.
        if !seconds.is_multiple_of(60) {
            to.push(b':');
            two(seconds % 60, to);
        }
    }
}

/// `uuuu-MM-dd'T'HH:mm:ss.SSS`
pub fn local_time(micros: i64, to: &mut Vec<u8>) {
    day_and_time(micros.div_euclid(MICROS_PER_DAY), micros.rem_euclid(MICROS_PER_DAY), to);
}

fn day_and_time(days: i64, micros_of_day: i64, to: &mut Vec<u8>) {
    date(days, to);
    let millis = (micros_of_day / 1000) as u32;
    let seconds = millis / 1000;
    to.push(b'T');
    two(seconds / 3600, to);
    to.push(b':');
    two(seconds / 60 % 60, to);
    to.push(b':');
    two(seconds % 60, to);
    to.push(b'.');
    three(millis % 1000, to);
}

/// `uuuu-MM-dd`
pub fn date(days: i64, to: &mut Vec<u8>) {
    let (year, month, day) = civil_from_days(days);
    match year {
        0..=9999 => {
            two(year as u32 / 100, to);
            two(year as u32 % 100, to);
        }
        _ => far_year(year, to),
    }
    to.push(b'-');
    two(month, to);
    to.push(b'-');
    two(day, to);
}

/// A sign, and at least four digits.
#[cold]
fn far_year(year: i64, to: &mut Vec<u8>) {
    to.push(if year < 0 { b'-' } else { b'+' });
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(year.unsigned_abs());
    to.resize(to.len() + 4usize.saturating_sub(digits.len()), b'0');
    to.extend_from_slice(digits.as_bytes());
}

#[inline(always)]
fn two(value: u32, to: &mut Vec<u8>) {
    to.extend_from_slice(&[b'0' + (value / 10) as u8, b'0' + (value % 10) as u8]);
}

#[inline(always)]
fn three(value: u32, to: &mut Vec<u8>) {
    to.push(b'0' + (value / 100) as u8);
    two(value % 100, to);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(zone: &str, micros: i64) -> String {
        let mut to = Vec::new();
        Clock::new(Zone::parse(zone).unwrap()).write(micros, &mut to);
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn instants_are_written_in_their_zone() {
        assert_eq!(at("UTC", 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at("UTC", -1), "1969-12-31T23:59:59.999Z");
        assert_eq!(at("Europe/Berlin", 1_720_000_000_123_456), "2024-07-03T11:46:40.123+02:00");
        assert_eq!(at("America/St_Johns", 0), "1969-12-31T20:30:00.000-03:30");
        assert_eq!(at("+05:30", 0), "1970-01-01T05:30:00.000+05:30");
        assert_eq!(at("Europe/Berlin", -3_000_000_000_000_000), "1874-12-07T19:33:28.000+00:53:28");
        assert_eq!(at("UTC", 253_402_300_800_000_000), "+10000-01-01T00:00:00.000Z");
        assert_eq!(at("UTC", -62_198_755_200_000_000), "-0001-01-01T00:00:00.000Z");
    }

    #[test]
    fn instants_beyond_the_database_have_the_rules_of_near_years() {
        assert_eq!(at("Europe/Berlin", i64::MAX), "+294247-01-10T05:00:54.775+01:00");
        assert!(at("Europe/Berlin", i64::MIN).starts_with("-290308-12-21T"));
    }
}
