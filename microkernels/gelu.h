/* The exact GELU's rational approximation of erf(v / sqrt(2)), one definition for every tier:
 *
 *     c = min(max(v, -RF_ERF_END), RF_ERF_END),  t = c * c
 *     e = c * P(t) / Q(t), where P and Q are evaluated by fma from the highest power down
 *     gelu(v) = (v * 0.5) * (1 + min(max(e, -1), 1))
 *
 * P and Q minimise the largest error up to RF_ERF_END, where e rounds to 1 or more: so great
 * negative numbers give 0. Errors are less than 3e-7 |v|, of which the fit has 2.3e-8. */
#ifndef RF_MICROKERNELS_GELU_H
#define RF_MICROKERNELS_GELU_H

enum { RF_ERF_TERMS = 6 };

#define RF_ERF_END 5.59375f

/* From the lowest power up. */
static const float rf_erf_p[RF_ERF_TERMS] = {0x1.98844ep-1f,  0x1.1da452p-4f,  0x1.366858p-7f,
                                             0x1.76b4b2p-12f, 0x1.ab90b4p-17f, 0x1.73eaf2p-25f};
static const float rf_erf_q[RF_ERF_TERMS] = {
    1.0f, 0x1.042a4cp-2f, 0x1.deba64p-6f, 0x1.fcad26p-10f, 0x1.4110eep-14f, 0x1.39320cp-20f};

#endif
