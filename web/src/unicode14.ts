/** Tables of Unicode 14.0, which `make generated` writes: in base 36, as `spelling.ts` reads them. */
export const UNICODE = "14.0";

/** Unassigned ranges: how far the first is from the end of the last range, and the last from it. */
export const UNASSIGNED =
  "oo,1 7,3 8 2 l b2 13,1 1f,1 4 1k,7 s,3 7,a 7j 1p,1 2u,d 1o,1 1e,1 g t,1 2 c,4 w 3,5 6l 9,1 3,1 n 8 2,2 5,1 a,1 3,1 5,7 2,3 3 6,1 q,1 4 7,3 3,1 n 8 3 " +
  "3 3,1 2 6,3 3,1 4,2 2,6 5 2,6 i,9 4 a 4 n 8 3 6,1 b 4 4,1 2,e 5,1 d,6 8 4 9,1 3,1 n 8 3 6,1 a,1 3,1 4,6 4,3 3 6,1 j,9 3 7,2 4 5,2 3 2 3,2 3,2 4,2 d,3 " +
  "6,2 4 5,1 2,5 2,d m,4 e 4 o h,1 a 4 5,6 3 4,1 2,1 5,1 b,6 n 4 o b 6,1 a 4 5,6 3,5 3 5,1 b 3,c e 4 1g 4 7,3 h,1 r 4 j,2 p a 2,1 8,2 2,3 7 2 9,5 b,1 " +
  "4,b 1n,3 u,10 3 2 6 p 2 o,1 6 2 7,1 b,1 5,v 21 11,3 14 11 g e,10 5j 2,4 2,1 ai 5,1 8 2 5,1 16 5,1 y 5,1 8 2 5,1 g 1m 5,1 1w,1 x,2 r,5 2f,1 7,1 im,2 " +
  "2i,6 n,8 p,8 l,b e 4 3,b 2n,1 b,5 b,5 r,5 2i,6 18,4 1z,9 w d,3 d,3 2,2 17,1 6,a 19,3 r,5 c,2 1r,1 1u u,1 c,5 b,5 f,1 w,1c 26,2 1c 39,7 1p,2 g,2 1p,6 " +
  "18,1 c,7 18,4 ev,1 7,1 13,1 7,1 9 2 2 2 w,1 1i g f,1 7 k,1 4 a 2u d,1 s e,2 y,e y,e 3x,3 ig,o c,k 1ed,1 x 9q,4 1a 2,4 2,1 1l,6 3,d p,8 8 8 8 8 8 8 8 " +
  "8 3j,x r 2i,b 5z,p d,3 1t 2f,1 2w,4 18 2n 2d,b 1c mlq,2 1k,8 9p,j 55,7 5o,4 3 2 6,n 1o,2 b,5 1l,7 1z,7 d,5 39,a v,2 27 c,3 y 1k,8 f,1 b,1 2w,n t,9 " +
  "7,1 7,1 7,8 8 8 1p,3 3j,1 b,5 8md,b o,3 1e,3 6sv,1 2z,11 8,b 6,4 r 6 2 3 3 3i,f ce,1 1j,6 2,v 17,5 1g k 5,3 6 3s,1 2 5b,2 7,1 7,1 7,1 4,2 8 8,9 6,1 d " +
  "r k 3 g,1 f,x 3g,4 4,3 1a,2 2h e,2 2,1a 1b,3l u,2 1e,e t,3 11,8 v,4 18,4 v 12,3 f,15 4f,1 b,5 11,3 11,3 15,7 1h,a d g 8 3 c g 8 3,1u 8o,8 n,9 9,n 7 " +
  "17 a,1w 7,1 2 19 3,2 2,1 o 21,7 a,1b k 3,4 y,2 s,4 2,1r 1l,3 l,1 1f 3,4 9 4 u,1 4,3 b,6 a,6 1t,v 14,3 d,8 1j,2 u,1 s,4 r,6 5,b 8,27 22,1i 1g,c 1g,6 " +
  "1b,7 b,85 w 17 4,1 3,25 15,7 17,l r,11 t,j o,8 27,3 11,8 1x,9 2,1 q,6 b,5 1i j,7 14,8 2p l,a j 19,1s 8 2 5 g c,5 1o,4 b,5 5 9,1 3,1 n 8 3 6 b,1 3,1 " +
  "4,1 2,5 2,4 8,1 8,2 6,3u 2l 6,t 21,7 b,4l 1j,1 13,x 1y,a b,5 e,i 1n,5 b,1h s,1 g,3 o,54 1p,2r 2c,b 9,1 2,1 9 3 v 3,1 d,8 b,1x 9,1 1b,1 c,q 21,7 2c,c " +
  "22,7a a 1a f,9 u,2 x,1 n f,20 8 3 19,2 2 3 a,7 b,5 7 3 12 3 7,6 b,8l q,52 2,e 1f,c po,2t 34 6,a 5h,217 2s,c ts a,346 g8,6ns fu,6 w b,3 2a b,5 v,1 7,9 " +
  "1z,9 b 8 m,4 k,j3 2k,2s 24,3 1m,6 i,1r 6,a 3,d 4qh,7 yf,15 a,6w6 5 8 3 84,18 4,g 5,7 b1,1s3 30,4 e,2 a,6 b,1 9,3mj 1b,1 o,8 39,1n 6v,9 14,1 5f,k " +
  "1z,49 l,b 2g,8 q,3q 2e 20 3,1 2,1 3,1 5 d 2 8 1u 5,1 9 8 t 5 6 2,2 8 9h,1 85,1 jj,e 6 g,un w,68 8 i,1 8 3 6,5w 1a,2 f,1 b,3 3,8v w,g 1n,4 2,yn 8 5 3 " +
  "g 5i,1 h,14 25,3 b,3 3,ls 1x,23 1q,5d 5 s 3 2,1 2 b 5 2 2,5 2,3 2 2 2 4 3 2,1 2 2 2 2 2 3 2,1 5 8 5 5 2 b i,4 4 6 i,1f 3,7h 19,3 2t,b g,1 g g 12,9 " +
  "4v,1j u,c 19,3 a,6 3,d 7,49 rd,4 h,2 e,2 39,b 2i,6 d,3 2,e d,3 1l,7 b,5 15,7 v,1 3,25 9h,b f,1 6,2 6,2 8,8 u,2 c,4 7,9 b,5 9,7 8,8 44 1k,10 b,sl " +
  "wyp,v 37e,6 67,1 4g3,d 5rm,2e6 f3,15t 3t8,fcfp 2,t 2p,3j 6p,1e6n 1ekf,1 1ekf,1";

/** Case foldings: first, count, step and the first's folding; or one code point, 0 and its folding. */
export const FOLDED =
  "67,0,37,37 8g,0,2x,lj 95,0,jg,32 ds,0,2y,lo pc,0,qh,lk,ld q8,0,qt,lk,ld 13b,0,12d,136 61i,0,2w,mp 61j,0,38,lk 61k,0,3b,lm 61l,0,3d,lm 61m,0,2p,ji " +
  "61q,0,37,37 66o,0,qt,lv 66q,0,qt,lv,lc 66s,0,qt,lv,ld 66u,0,qt,lv,n6 680,0,64g,qh 681,0,64h,qh 682,0,64i,qh 683,0,64j,qh 684,0,64k,qh 685,0,64l,qh " +
  "686,0,64m,qh 687,0,64n,qh 688,0,64g,qh 689,0,64h,qh 68a,0,64i,qh 68b,0,64j,qh 68c,0,64k,qh 68d,0,64l,qh 68e,0,64m,qh 68f,0,64n,qh 68g,0,65c,qh " +
  "68h,0,65d,qh 68i,0,65e,qh 68j,0,65f,qh 68k,0,65g,qh 68l,0,65h,qh 68m,0,65i,qh 68n,0,65j,qh 68o,0,65c,qh 68p,0,65d,qh 68q,0,65e,qh 68r,0,65f,qh " +
  "68s,0,65g,qh 68t,0,65h,qh 68u,0,65i,qh 68v,0,65j,qh 68w,0,674,qh 68x,0,675,qh 68y,0,676,qh 68z,0,677,qh 690,0,678,qh 691,0,679,qh 692,0,67a,qh " +
  "693,0,67b,qh 694,0,674,qh 695,0,675,qh 696,0,676,qh 697,0,677,qh 698,0,678,qh 699,0,679,qh 69a,0,67a,qh 69b,0,67b,qh 69e,0,67k,qh 69f,0,q9,qh " +
  "69g,0,q4,qh 69i,0,q9,n6 69j,0,q9,n6,qh 69o,0,q9,qh 69u,0,67o,qh 69v,0,qf,qh 69w,0,q6,qh 69y,0,qf,n6 69z,0,qf,n6,qh 6a4,0,qf,qh 6aa,0,qh,lk,lc " +
  "6ab,0,qh,lk,ld 6ae,0,qh,n6 6af,0,qh,lk,n6 6aq,0,qt,lk,lc 6ar,0,qt,lk,ld 6as,0,qp,lv 6au,0,qt,n6 6av,0,qt,lk,n6 6b6,0,67w,qh 6b7,0,qx,qh 6b8,0,r2,qh " +
  "6ba,0,qx,n6 6bb,0,qx,n6,qh 6bg,0,qx,qh 1dkw,0,2u,2u 1dkx,0,2u,2x 1dky,0,2u,30 1dkz,0,2u,2u,2x 1dl0,0,2u,2u,30 1dl1,0,37,38 1dl2,0,37,38 " +
  "1dlf,0,12s,12u 1dlg,0,12s,12d 1dlh,0,12s,12j 1dli,0,132,12u 1dlj,0,12s,12l 1t,q,1,2p 51,1,1,qk 5c,n,1,68 60,7,1,6w 74,o,2,75 8i,3,2,8j 8p,8,2,8q " +
  "96,n,2,97 ag,1,1,73 ah,3,2,ai an,1,1,37 ap,1,1,gj aq,2,2,ar au,1,1,gk av,1,1,aw ax,2,1,gm az,1,1,b0 b2,1,1,d9 b3,1,1,gp b4,1,1,gr b5,1,1,b6 b7,1,1,gw " +
  "b8,1,1,gz ba,1,1,h5 bb,1,1,h4 bc,1,1,bd bg,1,1,hb bh,1,1,he bj,1,1,hh bk,3,2,bl bq,1,1,hs br,1,1,bs bt,1,1,hv bw,1,1,bx by,1,1,i0 bz,1,1,c0 c1,2,1,i2 " +
  "c3,2,2,c4 c7,1,1,ia c8,1,1,c9 cc,1,1,cd ck,1,1,cm cl,1,1,cm cn,1,1,cp co,1,1,cp cq,1,1,cs cr,9,2,cs da,9,2,db dt,1,1,dv du,2,2,dv dy,1,1,b9 dz,1,1,cf " +
  "e0,k,2,e1 f4,1,1,bi f6,9,2,f7 fu,1,1,8rp fv,1,1,fw fx,1,1,be fy,1,1,8rq g1,1,1,g2 g3,1,1,ao g4,1,1,i1 g5,1,1,i4 g6,5,2,g7 n9,1,1,qh og,2,2,oh " +
  "om,1,1,on ov,1,1,s3 p2,1,1,q4 p4,3,1,q5 p8,1,1,r0 pa,2,1,r1 pd,h,1,q9 pv,9,1,qr qq,1,1,qr r3,1,1,rb r4,1,1,qa r5,1,1,qg r9,1,1,qu ra,1,1,qo rc,c,2,rd " +
  "s0,1,1,qi s1,1,1,qp s4,1,1,qg s5,1,1,qd s7,1,1,s8 s9,1,1,s2 sa,1,1,sb sd,3,1,or sg,g,1,uo sw,w,1,ts v4,h,2,v5 wa,r,2,wb xs,1,1,y7 xt,7,2,xu " +
  "y8,1c,2,y9 10x,12,1,129 3a8,12,1,8w0 3bb,1,1,8x3 3bh,1,1,8x9 3y0,6,1,3xs 5mo,1,1,tu 5mp,1,1,tw 5mq,1,1,u6 5mr,2,1,u9 5mt,1,1,ua 5mu,1,1,ui 5mv,1,1,v7 " +
  "5mw,1,1,wuj 5n4,17,1,3bk 5od,3,1,3ct 5xc,23,2,5xd 61n,1,1,601 61s,1c,2,61t 64o,8,1,64g 654,6,1,64w 65k,8,1,65c 660,8,1,65s 66g,6,1,668 66x,4,2,66p " +
  "67c,8,1,674 69k,2,1,69c 69m,2,1,67k 69q,1,1,qh 6a0,4,1,67m 6ag,2,1,6a8 6ai,2,1,67q 6aw,2,1,6ao 6ay,2,1,67u 6b0,1,1,6at 6bc,2,1,67s 6be,2,1,67w " +
  "6jq,1,1,qx 6ju,1,1,2z 6jv,1,1,6d 6k2,1,1,6ku 6lc,g,1,6ls 6mb,1,1,6mc 792,q,1,79s 8ow,1c,1,8q8 8rk,1,1,8rl 8rm,1,1,h7 8rn,1,1,5tp 8ro,1,1,hp " +
  "8rr,3,2,8rs 8rx,1,1,gh 8ry,1,1,hd 8rz,1,1,gg 8s0,1,1,gi 8s2,1,1,8s3 8s5,1,1,8s6 8se,2,1,fz 8sg,1e,2,8sh 8vf,2,2,8vg 8vm,1,1,8vn wu8,n,2,wu9 " +
  "ww0,e,2,ww1 x0i,7,2,x0j x0y,v,2,x0z x2x,2,2,x2y x31,1,1,5tl x32,5,2,x33 x3f,1,1,x3g x3h,1,1,h1 x3k,2,2,x3l x3q,a,2,x3r x4a,1,1,h2 x4b,1,1,gs " +
  "x4c,1,1,gx x4d,1,1,h8 x4e,1,1,h6 x4g,1,1,im x4h,1,1,hz x4i,1,1,il x4j,1,1,xub x4k,8,2,x4l x50,1,1,x3o x51,1,1,hu x52,1,1,5u6 x53,2,2,x54 x5c,1,1,x5d " +
  "x5i,2,2,x5j x6d,1,1,x6e xv4,28,1,3vk 1ee9,q,1,1ef5 1fcw,14,1,1fe0 1fhs,10,1,1fiw 1fn4,j,2,1fo7 1fn5,5,2,1fo8 1fnh,7,2,1fok 1fnx,3,2,1fp0 " +
  "1fo5,1,1,1fp8 1h1c,1f,1,1h34 1jfk,w,1,1jgg 20cg,w,1,20dc 2olc,y,1,2oma";
