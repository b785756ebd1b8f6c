"""PTX of small kernels, as a compiler would write it."""

VECTOR_ADD = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .f32 %f<4>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<11>;
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    ld.param.u64 %rd3, [c];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.s32 %p1, %r5, %r1;
    @%p1 bra done;
    mul.wide.s32 %rd4, %r5, 4;
    add.s64 %rd5, %rd1, %rd4;
    add.s64 %rd6, %rd2, %rd4;
    add.s64 %rd7, %rd3, %rd4;
    ld.global.f32 %f1, [%rd5];
    ld.global.f32 %f2, [%rd6];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%rd7], %f3;
done:
    ret;
}
"""

#: Every thread stores its index to the same word of shared memory, and then the block's to the output.
RACE = """\
.version 8.0
.target sm_80
.address_size 64
.file 1 "made_up.py"
.visible .entry race(.param .u64 out)
.reqntid 64, 1, 1
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    .shared .align 4 .b8 word[4];
    .loc 1 7 4
    mov.u32 %r1, %tid.x;
    .loc 1 8 4
    st.shared.u32 [word], %r1;
    .loc 1 9 4
    ld.shared.u32 %r2, [word];
    ld.param.u64 %rd1, [out];
    st.global.u32 [%rd1], %r2;
    ret;
}
"""

#: Never ends, and its loop has an effect.
ENDLESS = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry endless(.param .u64 out)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, 0;
again:
    add.u32 %r1, %r1, 1;
    st.global.u32 [%rd1], %r1;
    bra again;
}
"""
