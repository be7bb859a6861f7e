//! Decimal numbers from text.

/// Parses `text` like Java's BigDecimal. Returns the number times ten to the power of `scale`, rounded half up. None if
/// it is not a number or has more than `precision` digits.
pub fn parse(text: &[u8], precision: u8, scale: i8) -> Option<i128> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let (mantissa, exponent) = match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (&text[..at], std::str::from_utf8(&text[at + 1..]).ok()?.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = match mantissa.iter().position(|&byte| byte == b'.') {
        Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
        None => (mantissa, &[][..]),
    };
    let digits = || whole.iter().chain(fraction);
    if whole.len() + fraction.len() == 0 || !digits().all(u8::is_ascii_digit) {
        return None;
    }
    let zeros = digits().take_while(|&&digit| digit == b'0').count();
    let significant = (whole.len() + fraction.len() - zeros) as i64;
    // The result is these digits times ten to the power of `shift`.
    let shift = i64::from(exponent) - fraction.len() as i64 + i64::from(scale);
    let counted = significant + shift;
    if significant == 0 || counted < 0 {
        return Some(0);
    }
    if counted > i64::from(precision) {
        return None;
    }
    let mut digits = digits().skip(zeros);
    let mut number = digits
        .by_ref()
        .take(counted as usize)
        .fold(0, |number, digit| number * 10 + i128::from(digit - b'0'));
    if shift > 0 {
        number *= 10_i128.pow(shift as u32);
    } else if digits.next().is_some_and(|&digit| digit >= b'5') {
        number += 1;
    }
    // Rounding up may have added a digit.
    (number < 10_i128.pow(u32::from(precision))).then_some(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_half_up_and_limited_by_the_precision() {
        for (text, precision, scale, expected) in [
            ("0", 1, 0, Some(0)),
            ("-0", 3, 2, Some(0)),
            ("1", 3, 2, Some(100)),
            ("1.005", 5, 2, Some(101)),
            ("-1.005", 5, 2, Some(-101)),
            ("1.0049", 5, 2, Some(100)),
            ("9.995", 3, 2, None),
            ("9.994", 3, 2, Some(999)),
            ("0.005", 3, 2, Some(1)),
            ("0.0049", 3, 2, Some(0)),
            ("1e2", 5, 2, Some(10000)),
            ("1e3", 5, 2, None),
            ("12e-1", 5, 2, Some(120)),
            ("1e-400", 5, 2, Some(0)),
            ("1e400", 38, 2, None),
            ("1e99999999999", 38, 2, None),
            ("00012", 2, 0, Some(12)),
            (".5", 2, 1, Some(5)),
            ("5.", 2, 1, Some(50)),
            ("+5", 2, 1, Some(50)),
            (".", 2, 1, None),
            ("", 2, 1, None),
            ("1 ", 2, 1, None),
            ("1e", 2, 1, None),
            ("99999999999999999999999999999999999999", 38, 0, Some(10_i128.pow(38) - 1)),
            ("99999999999999999999999999999999999999.5", 38, 0, None),
        ] {
            assert_eq!(
                parse(text.as_bytes(), precision, scale),
                expected,
                "{text} as decimal({precision},{scale})"
            );
        }
    }
}
