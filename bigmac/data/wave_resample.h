#pragma once

#include "bigmac/data/wave.h"

namespace bigmac::data {

// The same sound at another sample rate, of ceil(n * rate / waveform.sample_rate) samples; sample 0 keeps its
// time, and there is silence before and after. Band-limited by a sinc under a Kaiser window (Kaiser 1974),
// evaluated exactly at each phase of the rational ratio: flat to 0.001 dB up to 7/8 of the lower of the two
// Nyquist frequencies, above that Nyquist frequency 85 dB down, so that nothing folds back into the band.
// Throws InvalidInput for a rate outside 1..384000 Hz on either side, and where one is more than 16 times the
// other.
Waveform resample(const Waveform& waveform, int64_t rate);

}  // namespace bigmac::data
