// Mean, variance, least, largest and the number of zeros of a row of floats, read from memory once.
//
// Parts of PART floats are summed as vectors of floats while they are in the first-level cache, first the
// values, then the squared distances from the part's mean; parts join in double precision.

#include <cmath>

#include "lanes.h"

namespace {

constexpr int64_t PART = 2048;
constexpr int CHAINS = 4;  // independent sums, so that no addition waits for the one before

struct Part {
    double mean, squares;  // squares: of the distances from the mean
    int64_t zeros;
};

float total(const lanes (&x)[CHAINS]) {
    const lanes sum = (x[0] + x[1]) + (x[2] + x[3]);
    float total = 0;
    for (int l = 0; l < W; l++) total += sum[l];
    return total;
}

Part look(const float *x, int64_t count, lanes &low, lanes &high, lanes &odd) {
    const int64_t whole = count / (CHAINS * W) * (CHAINS * W);
    lanes sum[CHAINS] = {}, squares[CHAINS] = {};
    bits zero[CHAINS] = {};
    for (int64_t i = 0; i < whole; i += CHAINS * W)
        for (int c = 0; c < CHAINS; c++) {
            const lanes v = load(x + i + c * W, W);
            sum[c] += v;
            zero[c] -= v == 0.0f;  // true is minus one
            low = v < low ? v : low;
            high = v > high ? v : high;
            odd += v - v;  // NaN once there was NaN or infinity
        }
    double added = total(sum);
    Part part = {0, 0, 0};
    for (int64_t i = whole; i < count; i++) {
        added += x[i];
        part.zeros += x[i] == 0.0f;
        if (x[i] < low[0]) low[0] = x[i];
        if (x[i] > high[0]) high[0] = x[i];
        odd[0] += x[i] - x[i];
    }
    part.mean = added / count;
    const float mean = part.mean;
    for (int64_t i = 0; i < whole; i += CHAINS * W)
        for (int c = 0; c < CHAINS; c++) {
            const lanes d = load(x + i + c * W, W) - mean;
            squares[c] += d * d;
        }
    part.squares = total(squares);
    for (int64_t i = whole; i < count; i++) part.squares += (x[i] - mean) * (x[i] - mean);
    part.squares -= count * (part.mean - mean) * (part.mean - mean);  // the mean was rounded to a float
    for (int c = 0; c < CHAINS; c++)
        for (int l = 0; l < W; l++) part.zeros += zero[c][l];
    return part;
}

}  // namespace

// result: mean, variance, least, largest and share of zeros. 0 when a number is NaN, infinite, or too large for
// its square: then `result` means nothing.
extern "C" int64_t k3scope_statistics(const float *x, int64_t count, double *result) {
    lanes low = lanes{} + x[0], high = low, odd = {};
    double mean = 0, squares = 0;
    int64_t zeros = 0;
    for (int64_t start = 0; start < count; start += PART) {
        const int64_t size = std::min(PART, count - start);
        const Part part = look(x + start, size, low, high, odd);
        const double apart = part.mean - mean, share = double(size) / (start + size);
        mean += apart * share;
        squares += part.squares + apart * apart * share * start;
        zeros += part.zeros;
    }
    float least = low[0], largest = high[0], strange = 0;
    for (int l = 0; l < W; l++) {
        least = std::min(least, low[l]);
        largest = std::max(largest, high[l]);
        strange += odd[l];
    }
    const double values[] = {mean, std::max(0.0, squares) / count, least, largest, double(zeros) / count};
    std::memcpy(result, values, sizeof values);
    return strange == 0.0f && std::isfinite(squares);
}
