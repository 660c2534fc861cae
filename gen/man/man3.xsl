<?xml version="1.0"?>
<!-- SPDX-License-Identifier: BSD-3-Clause -->
<!--
  Man pages of section 3 from the XML of doxygen: one for each section of hg.h,
  and for each function, type of a function, public macro and struct with a
  contract. Input: a group's XML. Parameters: `dir`, where the pages go; `xml`,
  where the other XML files are; `version`.

  doxygen's own man pages hold a whole group each; doxygen2man drops what
  follows a constant in a sentence. Hence this stylesheet.
-->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"
    xmlns:exsl="http://exslt.org/common" xmlns:str="http://exslt.org/strings"
    extension-element-prefixes="exsl str">
<xsl:output method="text"/>
<xsl:param name="dir"/>
<xsl:param name="xml"/>
<xsl:param name="version"/>
<xsl:variable name="upper" select="'ABCDEFGHIJKLMNOPQRSTUVWXYZ'"/>
<xsl:variable name="lower" select="'abcdefghijklmnopqrstuvwxyz'"/>
<!-- Macros for one of two functions: that of version 1, or that of version 2. -->
<xsl:variable name="aliases" select="//memberdef[@kind='define' and contains(
    '|HG_Init|HG_Finalize|HG_Register|HG_Forward|HG_Bulk_transfer|',
    concat('|', name, '|'))]"/>

<xsl:template match="/">
  <xsl:apply-templates mode="section" select="//compounddef[@kind='group']"/>
  <xsl:apply-templates select="//compounddef[@kind='group']/innerclass"/>
  <xsl:apply-templates mode="page" select="//memberdef[
      normalize-space(briefdescription) and (@kind='function' or
      (@kind='typedef' and contains(type, '(*')) or
      (@kind='define' and param))] | $aliases"/>
</xsl:template>

<!-- ==== A page ==== -->

<!-- A section of hg.h: its introduction, and what it declares. -->
<xsl:template match="compounddef" mode="section">
  <xsl:variable name="name" select="translate(compoundname, '_', '-')"/>
  <exsl:document href="{$dir}/{$name}.3" method="text">
    <xsl:call-template name="title">
      <xsl:with-param name="name" select="$name"/>
    </xsl:call-template>
    <xsl:value-of select="concat($name, ' \- ', title,
        '&#10;.SH SYNOPSIS&#10;.nf&#10;#include &lt;hg.h&gt;&#10;.fi&#10;')"/>
    <xsl:call-template name="contract"/>
    <xsl:if test="innergroup">
      <xsl:text>.SH SECTIONS&#10;</xsl:text>
    </xsl:if>
    <xsl:for-each select="innergroup">
      <xsl:variable name="id" select="substring-after(@refid, 'group__')"/>
      <xsl:value-of select="concat('.TP&#10;.BR ',
          str:replace(str:replace($id, '__', '\-'), '_', ''),
          ' (3)&#10;', ., '&#10;')"/>
    </xsl:for-each>
    <xsl:variable name="pages" select=".//memberdef[
        normalize-space(briefdescription) and (@kind='function' or
        (@kind='typedef' and contains(type, '(*')) or
        (@kind='define' and param))]"/>
    <xsl:if test="$pages">
      <xsl:text>.SH FUNCTIONS AND MACROS&#10;</xsl:text>
    </xsl:if>
    <xsl:for-each select="$pages">
      <xsl:value-of select="concat('.TP&#10;.BR ', name, ' (3)&#10;')"/>
      <xsl:apply-templates select="briefdescription/para"/>
    </xsl:for-each>
    <xsl:text>.SH SEE ALSO&#10;.BR hg (7)&#10;</xsl:text>
  </exsl:document>
</xsl:template>

<xsl:template match="memberdef" mode="page">
  <xsl:variable name="name" select="name"/>
  <exsl:document href="{$dir}/{name}.3" method="text">
    <xsl:call-template name="head">
      <xsl:with-param name="name" select="name"/>
    </xsl:call-template>
    <xsl:if test="../../@kind='group'">
      <xsl:if test="contains(../../@id, 'callback') and
          not(contains(../../@id, 'transports'))">
        <xsl:text>#define HG_API_VERSION 2&#10;</xsl:text>
      </xsl:if>
      <xsl:if test="contains(../../@id, 'plugin')">
        <xsl:text>#define HG_NA_PLUGIN_API 1&#10;</xsl:text>
      </xsl:if>
    </xsl:if>
    <xsl:text>#include &lt;hg.h&gt;&#10;&#10;</xsl:text>
    <xsl:choose>
      <xsl:when test="@kind='function' or @kind='typedef' or param">
        <xsl:call-template name="prototype"/>
        <xsl:text>.fi&#10;</xsl:text>
        <xsl:call-template name="contract"/>
        <xsl:call-template name="also"/>
      </xsl:when>
      <xsl:otherwise>
        <xsl:value-of select="concat('#define ', name, ' ', name,
            '1 /* with HG_API_VERSION 1 */&#10;#define ', name, ' ', name,
            '2 /* with HG_API_VERSION 2 */&#10;')"/>
        <xsl:text>.fi&#10;</xsl:text>
        <xsl:call-template name="contract"/>
        <xsl:value-of select="concat('.SH SEE ALSO&#10;.BR ', name,
            '1 (3),&#10;.BR ', name, '2 (3),&#10;.BR hg (7)&#10;')"/>
      </xsl:otherwise>
    </xsl:choose>
  </exsl:document>
</xsl:template>

<xsl:template match="innerclass">
  <xsl:variable name="plugin" select="contains(../@id, 'plugin')"/>
  <xsl:for-each select="document(concat($xml, '/', @refid, '.xml'))
      //compounddef[normalize-space(briefdescription)]">
    <exsl:document href="{$dir}/{compoundname}.3" method="text">
      <xsl:call-template name="head">
        <xsl:with-param name="name" select="compoundname"/>
      </xsl:call-template>
      <xsl:if test="$plugin">
        <xsl:text>#define HG_NA_PLUGIN_API 1&#10;</xsl:text>
      </xsl:if>
      <xsl:text>#include &lt;hg.h&gt;&#10;&#10;struct </xsl:text>
      <xsl:value-of select="compoundname"/>
      <xsl:text>;&#10;.fi&#10;</xsl:text>
      <xsl:call-template name="contract"/>
      <xsl:if test=".//memberdef">
        <xsl:text>.SH MEMBERS&#10;</xsl:text>
      </xsl:if>
      <xsl:for-each select=".//memberdef">
        <xsl:text>.TP&#10;.B </xsl:text>
        <xsl:call-template name="quoted">
          <xsl:with-param name="text" select="type"/>
          <xsl:with-param name="more" select="concat(substring(' ', 1 + number(
              contains(type, '*'))), name, argsstring)"/>
        </xsl:call-template>
        <xsl:apply-templates select="briefdescription/para"/>
        <xsl:for-each select="detaileddescription/para">
          <xsl:if test="position() &gt; 1"><xsl:text>.IP&#10;</xsl:text></xsl:if>
          <xsl:apply-templates/>
          <xsl:text>&#10;</xsl:text>
        </xsl:for-each>
      </xsl:for-each>
      <xsl:call-template name="also"/>
    </exsl:document>
  </xsl:for-each>
</xsl:template>

<xsl:template name="title">
  <xsl:param name="name"/>
  <xsl:value-of select="concat('.TH ', $name, ' 3 &quot;&quot; &quot;hg ',
      $version, '&quot; &quot;hg manual&quot;&#10;.nh&#10;.ad l&#10;')"/>
  <xsl:text>.SH NAME&#10;</xsl:text>
</xsl:template>

<xsl:template name="head">
  <xsl:param name="name"/>
  <xsl:variable name="brief" select="normalize-space(briefdescription)"/>
  <xsl:call-template name="title">
    <xsl:with-param name="name" select="$name"/>
  </xsl:call-template>
  <xsl:value-of select="concat($name, ' \- ')"/>
  <xsl:call-template name="text">
    <xsl:with-param name="text" select="concat(
        translate(substring($brief, 1, 1), $upper, $lower),
        substring($brief, 2, string-length($brief) - 2))"/>
  </xsl:call-template>
  <xsl:text>&#10;.SH SYNOPSIS&#10;.nf&#10;</xsl:text>
</xsl:template>

<!-- One line, or one parameter a line. -->
<xsl:template name="prototype">
  <xsl:variable name="start">
    <xsl:choose>
      <xsl:when test="@kind='define'">
        <xsl:value-of select="name"/>
      </xsl:when>
      <xsl:when test="@kind='typedef'">
        <xsl:value-of select="concat('typedef ',
            normalize-space(substring-before(type, '(*')), ' (*', name)"/>
      </xsl:when>
      <xsl:otherwise>
        <xsl:value-of select="type"/>
        <xsl:if test="substring(type, string-length(type)) != '*'">
          <xsl:text> </xsl:text>
        </xsl:if>
        <xsl:value-of select="name"/>
      </xsl:otherwise>
    </xsl:choose>
  </xsl:variable>
  <xsl:variable name="long" select="string-length(concat($start, argsstring))
      &gt; 72"/>
  <xsl:variable name="all">
    <xsl:value-of select="$start"/>
    <xsl:if test="@kind='typedef'">
      <xsl:choose>
        <xsl:when test="$long">
          <xsl:value-of select="str:replace(string(argsstring), ', ',
              ',&#10;    ')"/>
        </xsl:when>
        <xsl:otherwise><xsl:value-of select="argsstring"/></xsl:otherwise>
      </xsl:choose>
    </xsl:if>
    <xsl:if test="@kind!='typedef' and (param or argsstring)">
      <xsl:text>(</xsl:text>
      <xsl:for-each select="param">
        <xsl:if test="$long"><xsl:text>&#10;    </xsl:text></xsl:if>
        <xsl:if test="not($long) and position() &gt; 1">
          <xsl:text> </xsl:text>
        </xsl:if>
        <xsl:choose>
          <!-- A pointer to a function. -->
          <xsl:when test="contains(type, '(*')">
            <xsl:value-of select="concat(substring-before(type, '(*'), ' (*',
                declname, substring-after(type, '(*'), array)"/>
          </xsl:when>
          <xsl:otherwise>
            <xsl:value-of select="type"/>
            <xsl:if test="declname and
                substring(type, string-length(type)) != '*'">
              <xsl:text> </xsl:text>
            </xsl:if>
            <xsl:value-of select="concat(declname, defname[not(../declname)],
                array)"/>
          </xsl:otherwise>
        </xsl:choose>
        <xsl:if test="position() != last()"><xsl:text>,</xsl:text></xsl:if>
      </xsl:for-each>
      <xsl:text>)</xsl:text>
    </xsl:if>
    <xsl:if test="@kind!='define'"><xsl:text>;</xsl:text></xsl:if>
    <xsl:text>&#10;</xsl:text>
  </xsl:variable>
  <xsl:call-template name="text">
    <xsl:with-param name="text" select="string($all)"/>
  </xsl:call-template>
</xsl:template>

<!-- ==== A contract ==== -->

<xsl:template name="contract">
  <xsl:variable name="text" select="detaileddescription/para[
      normalize-space(.) and (text()[normalize-space()] or
      *[not(self::parameterlist or self::simplesect)])]"/>
  <xsl:text>.SH DESCRIPTION&#10;</xsl:text>
  <xsl:if test="briefdescription/para">
    <xsl:apply-templates select="briefdescription/para/node()"/>
    <xsl:text>&#10;</xsl:text>
  </xsl:if>
  <xsl:for-each select="$text">
    <xsl:text>.PP&#10;</xsl:text>
    <xsl:apply-templates select="node()[not(self::parameterlist or
        self::simplesect)]"/>
    <xsl:text>&#10;</xsl:text>
  </xsl:for-each>
  <xsl:if test="detaileddescription//parameterlist[@kind='param']">
    <xsl:text>.SH PARAMETERS&#10;</xsl:text>
    <xsl:apply-templates
        select="detaileddescription//parameterlist[@kind='param']/*"/>
  </xsl:if>
  <xsl:if test="detaileddescription//parameterlist[@kind='retval'] or
      detaileddescription//simplesect[@kind='return']">
    <xsl:text>.SH RETURN VALUE&#10;</xsl:text>
    <xsl:for-each select="detaileddescription//simplesect[@kind='return']/para">
      <xsl:apply-templates/>
      <xsl:text>&#10;</xsl:text>
    </xsl:for-each>
    <xsl:apply-templates
        select="detaileddescription//parameterlist[@kind='retval']/*"/>
  </xsl:if>
  <xsl:for-each select="detaileddescription//simplesect[@kind='par']">
    <xsl:value-of select="concat('.SH ',
        translate(title, $lower, $upper), '&#10;')"/>
    <xsl:for-each select="para">
      <xsl:if test="position() &gt; 1"><xsl:text>.PP&#10;</xsl:text></xsl:if>
      <xsl:apply-templates/>
      <xsl:text>&#10;</xsl:text>
    </xsl:for-each>
  </xsl:for-each>
</xsl:template>

<xsl:template match="parameteritem">
  <xsl:text>.TP&#10;.B </xsl:text>
  <xsl:call-template name="quoted">
    <xsl:with-param name="text" select="normalize-space(parameternamelist)"/>
  </xsl:call-template>
  <xsl:for-each select="parameterdescription/para">
    <xsl:if test="position() &gt; 1"><xsl:text>.IP&#10;</xsl:text></xsl:if>
    <xsl:apply-templates/>
    <xsl:text>&#10;</xsl:text>
  </xsl:for-each>
</xsl:template>

<!-- Functions that the contract names, others of the section, and hg(7). -->
<xsl:template name="also">
  <xsl:variable name="self" select="name | compoundname"/>
  <xsl:text>.SH SEE ALSO&#10;</xsl:text>
  <xsl:for-each select="(briefdescription | detaileddescription)
      //ref[starts-with(@refid, 'group__') and contains(., '()')]
      [not(. = preceding::ref[ancestor::memberdef[name = $self]])]">
    <xsl:value-of select="concat('.BR ', substring-before(., '()'),
        ' (3),&#10;')"/>
  </xsl:for-each>
  <xsl:if test="starts-with($self, 'HG_Bulk')">
    <xsl:text>.BR hg\-bulk (7),&#10;</xsl:text>
  </xsl:if>
  <xsl:if test="../../@kind='group'">
    <xsl:value-of select="concat('.BR ', str:replace(string(
        ../../compoundname), '_', '\-'), ' (3),&#10;')"/>
  </xsl:if>
  <xsl:text>.BR hg (7)&#10;</xsl:text>
</xsl:template>

<!-- ==== Text ==== -->

<xsl:template match="para">
  <xsl:apply-templates/>
  <xsl:text>&#10;</xsl:text>
</xsl:template>

<xsl:template match="computeroutput | bold">
  <xsl:text>\fB</xsl:text><xsl:apply-templates/><xsl:text>\fP</xsl:text>
</xsl:template>

<xsl:template match="emphasis">
  <xsl:text>\fI</xsl:text><xsl:apply-templates/><xsl:text>\fP</xsl:text>
</xsl:template>

<xsl:template match="itemizedlist | orderedlist">
  <xsl:text>&#10;</xsl:text>
  <xsl:for-each select="listitem">
    <xsl:text>.IP \(bu 2&#10;</xsl:text>
    <xsl:apply-templates select="para"/>
  </xsl:for-each>
  <xsl:text>.PP&#10;</xsl:text>
</xsl:template>

<xsl:template match="verbatim | preformatted | programlisting">
  <xsl:text>&#10;.PP&#10;.RS 4&#10;.nf&#10;</xsl:text>
  <xsl:choose>
    <xsl:when test="codeline">
      <xsl:for-each select="codeline">
        <xsl:variable name="line"><xsl:apply-templates/></xsl:variable>
        <xsl:if test="starts-with($line, '.')"><xsl:text>\&amp;</xsl:text></xsl:if>
        <xsl:value-of select="$line"/>
        <xsl:text>&#10;</xsl:text>
      </xsl:for-each>
    </xsl:when>
    <xsl:otherwise>
      <xsl:apply-templates/>
      <xsl:text>&#10;</xsl:text>
    </xsl:otherwise>
  </xsl:choose>
  <xsl:text>.fi&#10;.RE&#10;</xsl:text>
</xsl:template>

<xsl:template match="sp"><xsl:text> </xsl:text></xsl:template>
<xsl:template match="ndash"><xsl:text>\(en</xsl:text></xsl:template>
<xsl:template match="linebreak"><xsl:text>&#10;.br&#10;</xsl:text></xsl:template>

<xsl:template match="text()">
  <xsl:call-template name="text">
    <xsl:with-param name="text" select="."/>
  </xsl:call-template>
</xsl:template>

<!-- What roff reads as its own: backslashes, hyphens, quotes at the start. -->
<xsl:template name="text">
  <xsl:param name="text"/>
  <xsl:value-of select="str:replace(str:replace(str:replace(string($text),
      '\', '\e'), '-', '\-'), &quot;'&quot;, '\(aq')"/>
</xsl:template>

<xsl:template name="quoted">
  <xsl:param name="text"/>
  <xsl:param name="more"/>
  <xsl:text>"</xsl:text>
  <xsl:call-template name="text">
    <xsl:with-param name="text" select="str:replace(concat($text, $more),
        '&quot;', '\(dq')"/>
  </xsl:call-template>
  <xsl:text>"&#10;</xsl:text>
</xsl:template>
</xsl:stylesheet>
