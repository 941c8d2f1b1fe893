// SubBytes on bit planes: 77 operations of three inputs, which are one instruction each on NVIDIA's GPUs, and 137
// operators elsewhere. scripts/make-sbox wrote this from aes_sbox.blif.

// LUT3(table, a, b, c): bit 4a + 2b + c of `table` at each place. Elsewhere than on CUDA, an expression for each table.
#if defined(__CUDACC__)
#define LUT3(table, a, b, c) lop3<table>((a), (b), (c))
#else
#define LUT3(table, a, b, c) LUT3_##table((a), (b), (c))
#define LUT3_0x03(a, b, c) (~(b | a))
#define LUT3_0x27(a, b, c) (~(((b ^ a) & c) ^ a))
#define LUT3_0x28(a, b, c) ((b ^ a) & c)
#define LUT3_0x30(a, b, c) (~b & a)
#define LUT3_0x3c(a, b, c) (b ^ a)
#define LUT3_0x3f(a, b, c) (~(b & a))
#define LUT3_0x56(a, b, c) (c ^ (b | a))
#define LUT3_0x60(a, b, c) ((c ^ b) & a)
#define LUT3_0x69(a, b, c) (~((b ^ a) ^ c))
#define LUT3_0x6a(a, b, c) (c ^ (b & a))
#define LUT3_0x72(a, b, c) ((c & b) ^ (c | a))
#define LUT3_0x95(a, b, c) (~(c ^ (b & a)))
#define LUT3_0x96(a, b, c) ((b ^ a) ^ c)
#define LUT3_0x9f(a, b, c) (~((c ^ b) & a))
#define LUT3_0xa2(a, b, c) (c & (~b | a))
#define LUT3_0xa8(a, b, c) (c & (b | a))
#define LUT3_0xbe(a, b, c) ((b ^ a) | c)
#define LUT3_0xc0(a, b, c) (b & a)
#define LUT3_0xc3(a, b, c) (~(b ^ a))
#define LUT3_0xf6(a, b, c) ((c ^ b) | a)
#define LUT3_0xfc(a, b, c) (b | a)
#endif

// q[i] holds bit i of 32 bytes.
DEVICE void sub_planes(u32 *q) {
    const u32 q0 = q[0], q1 = q[1], q2 = q[2], q3 = q[3], q4 = q[4], q5 = q[5], q6 = q[6], q7 = q[7];
    const u32 n33 = LUT3(0xc3, q2, q4, q4);
    const u32 n32 = LUT3(0x96, n33, q1, q7);
    const u32 n31 = LUT3(0x96, n32, q3, q6);
    const u32 n38 = LUT3(0x96, n32, q2, q3);
    const u32 n46 = LUT3(0xc3, q2, q7, q7);
    const u32 m37 = LUT3(0x96, n38, q5, q6);
    const u32 n42 = LUT3(0x03, n38, n32, n32);
    const u32 m30 = LUT3(0x69, n31, q4, q7);
    const u32 n29 = LUT3(0x96, m30, q5, q6);
    const u32 n34 = LUT3(0x96, q0, q5, q6);
    const u32 m45 = LUT3(0x3c, n34, q1, q1);
    const u32 n44 = LUT3(0x3c, m45, n46, n46);
    const u32 m43 = LUT3(0xf6, n44, n38, q0);
    const u32 n41 = LUT3(0x96, n42, m43, n31);
    const u32 n39 = LUT3(0x28, q4, q7, n31);
    const u32 n54 = LUT3(0x56, n46, m37, n39);
    const u32 n49 = LUT3(0x28, n34, q4, q0);
    const u32 n48 = LUT3(0x96, n39, n42, n49);
    const u32 n47 = LUT3(0x6a, m37, n46, n48);
    const u32 m53 = LUT3(0x3c, n34, q7, q7);
    const u32 n52 = LUT3(0x60, m53, m30, q0);
    const u32 n51 = LUT3(0x72, q7, q1, n29);
    const u32 n50 = LUT3(0x96, n51, n52, n54);
    const u32 m27 = LUT3(0x56, q1, n34, n51);
    const u32 m36 = LUT3(0xf6, n33, m37, m30);
    const u32 n35 = LUT3(0x3c, m36, n39, n39);
    const u32 m26 = LUT3(0xc3, m27, n35, n35);
    const u32 n40 = LUT3(0x3c, n35, n41, n41);
    const u32 n25 = LUT3(0x30, m26, n40, n40);
    const u32 n24 = LUT3(0x3c, n25, n47, n47);
    const u32 m23 = LUT3(0x72, m26, n50, n24);
    const u32 n56 = LUT3(0x3c, n25, n50, n50);
    const u32 m55 = LUT3(0x27, n40, n47, n56);
    const u32 n80 = LUT3(0xc0, m55, m53, m53);
    const u32 m22 = LUT3(0x3c, m23, m55, m55);
    const u32 m62 = LUT3(0x9f, m22, q4, q7);
    const u32 n81 = LUT3(0x60, m23, n34, q4);
    const u32 n71 = LUT3(0x60, m55, m30, q0);
    const u32 m69 = LUT3(0x3f, m23, q0, q0);
    const u32 n61 = LUT3(0xa8, n40, n50, n47);
    const u32 n59 = LUT3(0xa2, n47, m26, n50);
    const u32 m58 = LUT3(0x6a, m26, n40, n59);
    const u32 n60 = LUT3(0x56, n40, m26, n61);
    const u32 m66 = LUT3(0x3c, m55, n60, n60);
    const u32 n68 = LUT3(0x60, m66, q1, q7);
    const u32 n65 = LUT3(0xc0, m66, n29, n29);
    const u32 n70 = LUT3(0x95, m45, n60, n71);
    const u32 n75 = LUT3(0xc0, n60, n34, n34);
    const u32 m57 = LUT3(0x3c, m58, n60, n60);
    const u32 n67 = LUT3(0x3c, m23, m58, m58);
    const u32 n82 = LUT3(0x03, n44, m58, m58);
    const u32 m87 = LUT3(0xbe, n38, q0, m58);
    const u32 n86 = LUT3(0x56, n67, n32, n82);
    const u32 n64 = LUT3(0x56, n67, n38, n65);
    const u32 m92 = LUT3(0x6a, m22, m30, n65);
    const u32 n21 = LUT3(0x3c, m22, m57, m57);
    const u32 m20 = LUT3(0xfc, n21, n33, n33);
    const u32 m77 = LUT3(0xf6, n21, m30, m37);
    const u32 n76 = LUT3(0x56, m57, m37, m77);
    const u32 m91 = LUT3(0x3c, m77, m92, m92);
    const u32 m93 = LUT3(0x56, n46, m57, m20);
    const u32 m19 = LUT3(0x3c, m20, m62, m62);
    const u32 m74 = LUT3(0x3c, m19, n75, n75);
    const u32 n73 = LUT3(0x3c, m74, n76, n76);
    const u32 n85 = LUT3(0x3c, m74, n86, n86);
    const u32 n84 = LUT3(0xc3, n85, m87, m87);
    const u32 r3 = LUT3(0x96, n84, m69, n71);
    const u32 r4 = LUT3(0x3c, n84, n64, n64);
    const u32 r7 = LUT3(0x3c, n85, m91, m91);
    const u32 n90 = LUT3(0x3c, m91, n75, n75);
    const u32 r6 = LUT3(0x3c, r4, n90, n90);
    const u32 n63 = LUT3(0x96, n64, n68, m69);
    const u32 r0 = LUT3(0x96, m19, n63, n70);
    const u32 r1 = LUT3(0x96, n73, n68, n70);
    const u32 n79 = LUT3(0x96, n73, n63, n80);
    const u32 r2 = LUT3(0x96, n79, n81, n82);
    const u32 r5 = LUT3(0x96, n79, n90, m93);
    q[0] = r0;
    q[1] = r1;
    q[2] = r2;
    q[3] = r3;
    q[4] = r4;
    q[5] = r5;
    q[6] = r6;
    q[7] = r7;
}
