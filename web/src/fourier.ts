/** The discrete Fourier transform of a power of two of numbers, in place. */

/** Transform re + i·im; of the inverse, the result is that times the size. */
export function fourier(re: Float64Array, im: Float64Array, isInverse: boolean): void {
  const n = re.length;
  for (let i = 1, j = 0; i < n; i++) {
    let bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      [re[i], re[j]] = [re[j], re[i]];
      [im[i], im[j]] = [im[j], im[i]];
    }
  }
  const turn = ((isInverse ? 2 : -2) * Math.PI) / n;
  const cos = new Float64Array(n / 2);
  const sin = new Float64Array(n / 2);
  for (let i = 0; i < n / 2; i++) {
    cos[i] = Math.cos(turn * i);
    sin[i] = Math.sin(turn * i);
  }
  for (let size = 2; size <= n; size *= 2) {
    const half = size / 2;
    const stride = n / size;
    for (let start = 0; start < n; start += size) {
      for (let i = 0, at = 0; i < half; i++, at += stride) {
        const [a, b] = [start + i, start + i + half];
        const x = re[b] * cos[at] - im[b] * sin[at];
        const y = re[b] * sin[at] + im[b] * cos[at];
        re[b] = re[a] - x;
        im[b] = im[a] - y;
        re[a] += x;
        im[a] += y;
      }
    }
  }
}

/** Complex numbers, of a spectrum. */
export interface Spectrum {
  readonly re: Float64Array;
  readonly im: Float64Array;
}

/** Return the spectrum of real numbers, for frequencies 0 to n/2. */
export function spectrumOf(values: Float64Array, n: number): Spectrum {
  const [re, im] = [new Float64Array(n), new Float64Array(n)];
  re.set(values);
  fourier(re, im, false);
  return { re: re.slice(0, n / 2 + 1), im: im.slice(0, n / 2 + 1) };
}

/** Return the real numbers of a spectrum. */
export function valuesOf({ re, im }: Spectrum, n: number): Float64Array {
  const [x, y] = [new Float64Array(n), new Float64Array(n)];
  x.set(re);
  y.set(im);
  for (let i = 1; i < n / 2; i++) {
    x[n - i] = re[i];
    y[n - i] = -im[i];
  }
  fourier(x, y, true);
  return x.map((value) => value / n);
}

export function multiply(a: Spectrum, b: Spectrum): Spectrum {
  const [re, im] = [new Float64Array(a.re.length), new Float64Array(a.re.length)];
  for (let i = 0; i < re.length; i++) {
    re[i] = a.re[i] * b.re[i] - a.im[i] * b.im[i];
    im[i] = a.re[i] * b.im[i] + a.im[i] * b.re[i];
  }
  return { re, im };
}

export function power(base: Spectrum, exponent: number): Spectrum {
  let found: Spectrum = { re: new Float64Array(base.re.length).fill(1), im: new Float64Array(base.re.length) };
  for (let left = exponent; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) found = multiply(found, base);
    if (left > 1) base = multiply(base, base);
  }
  return found;
}
