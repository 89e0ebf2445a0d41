/* banned.h - functions with a safe counterpart become compile errors. Included last in every .c file, because system
 * headers mention some of them. Write to a bounded buffer with snprintf; copy with memcpy and a length. */
#ifndef TB_BANNED_H
#define TB_BANNED_H

#define TB_BANNED(name) tb_##name##_is_banned

#undef strcpy
#define strcpy(...) TB_BANNED(strcpy)
#undef strcat
#define strcat(...) TB_BANNED(strcat)
#undef strncpy
#define strncpy(...) TB_BANNED(strncpy)
#undef strncat
#define strncat(...) TB_BANNED(strncat)
#undef sprintf
#define sprintf(...) TB_BANNED(sprintf)
#undef vsprintf
#define vsprintf(...) TB_BANNED(vsprintf)
#undef strtok
#define strtok(...) TB_BANNED(strtok)
#undef gets
#define gets(...) TB_BANNED(gets)
#undef alloca
#define alloca(...) TB_BANNED(alloca)
#undef atoi
#define atoi(...) TB_BANNED(atoi)
#undef strerror
#define strerror(...) TB_BANNED(strerror)
#undef exit
#define exit(...) TB_BANNED(exit)
#undef abort
#define abort(...) TB_BANNED(abort)

#endif
