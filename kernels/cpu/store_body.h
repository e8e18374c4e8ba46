// SPDX-License-Identifier: Apache-2.0
// How a vector of a finished tile is stored, for one instruction set; included after vec, vmask,
// INLINE and the V_* macros are defined. Not a header to include anywhere else.

#ifdef INLINE

INLINE vec load_part(const float *p, const int whole, vmask mask) {
    return whole ? V_LOAD(p) : V_LOADM(p, mask);
}

// Finishes one vector of a tile: elements beyond the mask are neither read nor written. Whole
// vectors use no mask, since masked stores are slow on some processors.
INLINE void store_vec(const struct tile_out *o, float *c, const float *bias, vec acc,
                      const int whole, vmask mask) {
    vec v = o->alpha * acc;
    if (o->beta != 0)
        v = V_FMA(V_SET1(o->beta), load_part(c, whole, mask), v);
    if (bias)
        v += load_part(bias, whole, mask);
    if (o->relu)
        v = V_RELU(v);
    if (whole)
        V_STORE(c, v);
    else
        V_STOREM(c, mask, v);
}

#endif
