//! Dates and timestamps from strings, by the rules of Spark's casts.

use jiff::civil;
use jiff::tz::TimeZone;

pub const SECONDS_PER_DAY: i64 = 86_400;
pub const MICROS_PER_SECOND: i64 = 1_000_000;

/// The period of the Gregorian calendar in days. Time zone rules repeat with it.
const DAYS_PER_400_YEARS: i64 = 146_097;

/// The first day after the Julian calendar.
const GREGORIAN_START: i32 = -141_427;

pub enum Zone {
    Offset { seconds: i64 },
    Region(TimeZone),
}

/// Java's short zone ids.
const SHORT_IDS: [(&str, &str); 28] = [
    ("ACT", "Australia/Darwin"),
    ("AET", "Australia/Sydney"),
    ("AGT", "America/Argentina/Buenos_Aires"),
    ("ART", "Africa/Cairo"),
    ("AST", "America/Anchorage"),
    ("BET", "America/Sao_Paulo"),
    ("BST", "Asia/Dhaka"),
    ("CAT", "Africa/Harare"),
    ("CNT", "America/St_Johns"),
    ("CST", "America/Chicago"),
    ("CTT", "Asia/Shanghai"),
    ("EAT", "Africa/Addis_Ababa"),
    ("ECT", "Europe/Paris"),
    ("EST", "-05:00"),
    ("HST", "-10:00"),
    ("IET", "America/Indiana/Indianapolis"),
    ("IST", "Asia/Kolkata"),
    ("JST", "Asia/Tokyo"),
    ("MIT", "Pacific/Apia"),
    ("MST", "-07:00"),
    ("NET", "Asia/Yerevan"),
    ("NST", "Pacific/Auckland"),
    ("PLT", "Asia/Karachi"),
    ("PNT", "America/Phoenix"),
    ("PRT", "America/Puerto_Rico"),
    ("PST", "America/Los_Angeles"),
    ("SST", "Pacific/Guadalcanal"),
    ("VST", "Asia/Ho_Chi_Minh"),
];

impl Zone {
    /// A zone by any id that Spark accepts: a region, an offset, or either with a prefix.
    pub fn parse(id: &str) -> Option<Zone> {
        let id = SHORT_IDS.iter().find(|(short, _)| *short == id).map_or(id, |(_, long)| long);
        if matches!(id, "Z" | "UTC" | "GMT" | "UT") {
            return Some(Zone::Offset { seconds: 0 });
        }
        let offset = ["UTC", "GMT", "UT"].iter().find_map(|prefix| id.strip_prefix(prefix)).unwrap_or(id);
        if offset.starts_with(['+', '-']) {
            return offset_seconds(offset).map(|seconds| Zone::Offset { seconds });
        }
        // The database ignores case; Java does not.
        let zone = TimeZone::get(id).ok().filter(|zone| zone.iana_name() == Some(id))?;
        Some(Zone::Region(zone))
    }

    /// The instant of a local time. If a clock showed it twice, the first one; if a clock skipped it, as much later as
    /// it skipped.
    fn instant(&self, days: i64, micros_of_day: i64) -> Option<i64> {
        let seconds = days * SECONDS_PER_DAY;
        let offset = match self {
            Zone::Offset { seconds } => *seconds,
            Zone::Region(zone) => {
                // The database does not cover these years: use the year 400 years, or a multiple of that, away.
                let cycles = match days {
                    -700_000..2_900_000 => 0,
                    _ => (days - DAYS_PER_400_YEARS).div_euclid(DAYS_PER_400_YEARS),
                };
                let near = if days < 0 { days.max(-700_000) } else { days - cycles * DAYS_PER_400_YEARS };
                let (year, month, day) = civil_from_days(near);
                let date = civil::Date::new(year as i16, month as i8, day as i8).ok()?;
                let second = (micros_of_day / MICROS_PER_SECOND) as i32;
                let time =
                    civil::Time::new((second / 3600) as i8, (second / 60 % 60) as i8, (second % 60) as i8, 0);
                let instant = zone.to_ambiguous_timestamp(date.to_datetime(time.ok()?)).compatible().ok()?;
                near * SECONDS_PER_DAY + i64::from(second) - instant.as_second()
            }
        };
        (seconds - offset).checked_mul(MICROS_PER_SECOND)?.checked_add(micros_of_day)
    }

    /// Seconds that local time is ahead of UTC at this second since 1970.
    pub fn offset_at(&self, seconds: i64) -> i64 {
        const CYCLE: i64 = DAYS_PER_400_YEARS * SECONDS_PER_DAY;
        // The database does not cover other years: use those of the last cycle, or the first year.
        const FIRST: i64 = -700_000 * SECONDS_PER_DAY;
        const LAST: i64 = 2_900_000 * SECONDS_PER_DAY;
        match self {
            Zone::Offset { seconds } => *seconds,
            Zone::Region(zone) => {
                let near =
                    if seconds < LAST { seconds.max(FIRST) } else { LAST - CYCLE + (seconds - LAST) % CYCLE };
                jiff::Timestamp::from_second(near)
                    .map_or(0, |instant| zone.to_offset(instant).seconds().into())
            }
        }
    }

    fn today(&self) -> i64 {
        let zone = match self {
            Zone::Offset { seconds } => {
                let now = jiff::Timestamp::now().as_second() + seconds;
                return now.div_euclid(SECONDS_PER_DAY);
            }
            Zone::Region(zone) => zone,
        };
        let date = jiff::Timestamp::now().to_zoned(zone.clone()).date();
        days_from_civil(date.year().into(), date.month() as u32, date.day() as u32)
    }
}

/// `+h`, `+hh`, `+h:mm`, `+hh:m`, `+hh:mm`, `+hhmm`, `+hh:mm:ss`, `+hhmmss`, up to 18 hours.
fn offset_seconds(text: &str) -> Option<i64> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let text = &text[1..];
    let parts: Vec<&str> = if text.contains(':') {
        text.split(':').collect()
    } else if text.len() > 2 {
        (0..text.len()).step_by(2).map(|at| text.get(at..at + 2)).collect::<Option<_>>()?
    } else {
        vec![text]
    };
    let mut seconds = 0;
    for (at, part) in parts.iter().enumerate() {
        let short = at == 0 || (at == 1 && parts.len() == 2);
        if !(part.len() == 2 || part.len() == 1 && short) || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let value: i64 = part.parse().ok()?;
        if at > 0 && value > 59 {
            return None;
        }
        seconds += value * [3600, 60, 1].get(at)?;
    }
    (seconds <= 18 * 3600).then_some(sign * seconds)
}

/// Days since 1970 from a string: `[+-]y...y[-[m]m[-[d]d[[T ]...]]]`.
pub fn date(text: &[u8]) -> Option<i32> {
    if let Some(days) = strict_date(text).or_else(|| strict_date(&without_gmt(text)?)) {
        return Some(days);
    }
    // Spark 1.5 wrote the number of days, in the calendar that Java used then.
    let days: i32 = std::str::from_utf8(text).ok()?.parse().ok()?;
    if days >= GREGORIAN_START {
        return Some(days);
    }
    let (year, month, day) = julian_from_days(days.into());
    i32::try_from(days_from_civil(year, month, day)).ok()
}

fn strict_date(text: &[u8]) -> Option<i32> {
    let mut text = Text(trim(text));
    let sign = text.sign().unwrap_or(1);
    let year = text.digits(4, 7)?;
    let (mut month, mut day) = (1, 1);
    if !text.0.is_empty() {
        text.byte(b"-")?;
        month = text.digits(1, 2)?;
        if !text.0.is_empty() {
            text.byte(b"-")?;
            day = text.digits(1, 2)?;
            if !text.0.is_empty() {
                text.byte(b" T")?;
            }
        }
    }
    i32::try_from(checked_days(sign * year, month, day)?).ok()
}

/// Microseconds since 1970 from a string: a date as above, a time, or both. `zone` is used if the string names none.
pub fn timestamp(text: &[u8], zone: &Zone) -> Option<i64> {
    strict_timestamp(text, zone).or_else(|| strict_timestamp(&without_gmt(text)?, zone))
}

fn strict_timestamp(text: &[u8], zone: &Zone) -> Option<i64> {
    let parsed = DateTime::parse(text)?;
    let named = match parsed.zone {
        Some(id) => Some(Zone::parse(&padded(id.trim_matches(|character| character <= ' ')))?),
        None => None,
    };
    let zone = named.as_ref().unwrap_or(zone);
    zone.instant(parsed.days.unwrap_or_else(|| zone.today()), parsed.micros_of_day)
}

/// Microseconds since 1970 of a local time without zone.
pub fn timestamp_ntz(text: &[u8]) -> Option<i64> {
    let parsed = DateTime::parse(text)?;
    if parsed.zone.is_some() {
        return None;
    }
    parsed.days?.checked_mul(SECONDS_PER_DAY * MICROS_PER_SECOND)?.checked_add(parsed.micros_of_day)
}

struct DateTime<'a> {
    days: Option<i64>,
    micros_of_day: i64,
    zone: Option<&'a str>,
}

impl<'a> DateTime<'a> {
    fn parse(untrimmed: &'a [u8]) -> Option<Self> {
        let mut text = Text(trim(untrimmed));
        let just_date = |days| Some(DateTime { days: Some(days), micros_of_day: 0, zone: None });
        // A time may begin with `T` only at the start of the string, before any space.
        if untrimmed.first() == Some(&b'T') {
            text.byte(b"T")?;
            return DateTime::time(None, text);
        }
        let sign = text.sign();
        if sign.is_none() && text.0.iter().take(3).any(|&byte| byte == b':') {
            return DateTime::time(None, text);
        }
        let year = sign.unwrap_or(1) * text.digits(4, 6)?;
        if text.0.is_empty() {
            return just_date(checked_days(year, 1, 1)?);
        }
        text.byte(b"-")?;
        let month = text.digits(1, 2)?;
        if text.0.is_empty() {
            return just_date(checked_days(year, month, 1)?);
        }
        text.byte(b"-")?;
        let days = checked_days(year, month, text.digits(1, 2)?)?;
        if text.0.is_empty() {
            return just_date(days);
        }
        text.byte(b" T")?;
        DateTime::time(Some(days), text)
    }

    /// `[h]h[:[m]m[:[s]s[.f...f][zone]]]`
    fn time(days: Option<i64>, mut text: Text<'a>) -> Option<Self> {
        let mut micros_of_day = 0;
        let mut zone = None;
        for (at, (limit, micros)) in
            [(24, 3_600_000_000), (60, 60_000_000), (60, MICROS_PER_SECOND)].iter().enumerate()
        {
            if at > 0 {
                if text.0.is_empty() {
                    break;
                }
                text.byte(b":")?;
            }
            let value = text.digits(1, 2)?;
            if value >= *limit {
                return None;
            }
            micros_of_day += value * micros;
            if at == 2 && !text.0.is_empty() {
                if text.byte(b".").is_some() {
                    micros_of_day += text.fraction();
                }
                zone = (!text.0.is_empty()).then_some(text.0);
            }
        }
        let zone = zone.map(std::str::from_utf8).transpose().ok()?;
        Some(DateTime { days, micros_of_day, zone })
    }
}

struct Text<'a>(&'a [u8]);

impl Text<'_> {
    fn sign(&mut self) -> Option<i64> {
        let sign = match self.0.first()? {
            b'-' => -1,
            b'+' => 1,
            _ => return None,
        };
        self.0 = &self.0[1..];
        Some(sign)
    }

    /// Consumes one of these bytes.
    fn byte(&mut self, among: &[u8]) -> Option<()> {
        among.contains(self.0.first()?).then(|| self.0 = &self.0[1..])
    }

    fn digits(&mut self, least: usize, most: usize) -> Option<i64> {
        let count = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if !(least..=most).contains(&count) {
            return None;
        }
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        Some(digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
    }

    /// Microseconds; further digits are dropped.
    fn fraction(&mut self) -> i64 {
        let mut micros = 0;
        let mut unit = MICROS_PER_SECOND;
        while let [digit @ b'0'..=b'9', rest @ ..] = self.0 {
            unit /= 10;
            micros += i64::from(digit - b'0') * unit;
            self.0 = rest;
        }
        micros
    }
}

/// Pads the hour of an offset such as `+1:30`, which Spark accepts.
fn padded(id: &str) -> String {
    let bytes = id.as_bytes();
    let sign = bytes.iter().position(|byte| matches!(byte, b'+' | b'-'));
    match sign {
        Some(at) if bytes.len() > at + 2 && bytes[at + 1].is_ascii_digit() && bytes[at + 2] == b':' => {
            format!("{}0{}", &id[..=at], &id[at + 1..])
        }
        _ => id.to_owned(),
    }
}

fn trim(text: &[u8]) -> &[u8] {
    let blank = |byte: &u8| *byte <= b' ' || *byte == 0x7f;
    let begin = text.iter().position(|byte| !blank(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !blank(byte)).map_or(begin, |last| last + 1);
    &text[begin..end]
}

/// Removes the `GMT` that old writers put before the offset, as in `2000-01-01T00:00:00GMT+01:00`, at every place.
fn without_gmt(text: &[u8]) -> Option<Vec<u8>> {
    let mut rest = text;
    let mut kept = Vec::new();
    while let Some(at) = rest.windows(3).position(|window| window == b"GMT") {
        kept.extend_from_slice(&rest[..at]);
        rest = &rest[at + 3..];
    }
    kept.extend_from_slice(rest);
    (kept.len() < text.len()).then_some(kept)
}

fn checked_days(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || day < 1 {
        return None;
    }
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_in_month = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    (day <= days_in_month).then(|| days_from_civil(year, month as u32, day as u32))
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar. The year begins in March here, so that the leap day is
/// its last day.
fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let cycle = year.div_euclid(400);
    let year_of_cycle = year.rem_euclid(400);
    let day_of_year = i64::from((153 * ((month + 9) % 12) + 2) / 5 + day - 1);
    let day_of_cycle = year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year;
    cycle * DAYS_PER_400_YEARS + day_of_cycle - 719_468
}

pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let cycle = days.div_euclid(DAYS_PER_400_YEARS);
    let day_of_cycle = days.rem_euclid(DAYS_PER_400_YEARS);
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    from_march(cycle * 400 + year_of_cycle, day_of_year)
}

/// The same in the Julian calendar.
fn julian_from_days(days: i64) -> (i64, u32, u32) {
    let days = days + 719_470;
    let cycle = days.div_euclid(1461);
    let day_of_cycle = days.rem_euclid(1461);
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1460) / 365;
    from_march(cycle * 4 + year_of_cycle, day_of_cycle - 365 * year_of_cycle)
}

fn from_march(year: i64, day_of_year: i64) -> (i64, u32, u32) {
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (if month <= 2 { year + 1 } else { year }, month as u32, day as u32)
}
